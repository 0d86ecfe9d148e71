"""Write a comparison as one page that needs nothing else.

The page has sentences, figures, tables and provenance, in this order.
"""

from collections.abc import Iterator

from quantscope.model import Network, Pairing
from quantscope.plain_text import many, printable
from quantscope.report.compare.pictures import (
    channel_picture,
    figures_html,
    histogram_picture,
    matched_tensors,
    pictures_along,
    pictures_of_classes,
)
from quantscope.report.compare.tables import (
    anchor_of,
    comparison_tables,
    match_tensors,
    number,
    side_by_side_key,
    side_by_side_table,
)
from quantscope.report.html import facts_html, list_html, table_html, text_html
from quantscope.report.page import SORTING, STYLE, page
from quantscope.report.provenance_text import provenance_facts
from quantscope.report.table import Table
from quantscope.report.wording import format_signed
from quantscope.run import EvaluationDelta
from quantscope.run.compare import Comparison, SideBySide, flag_tensors, reading, usual
from quantscope.run.histograms import Histograms

COMPARISON_STYLE = """
html { scroll-padding-top: 1rem; }
main { max-width: 112rem; margin: 0 auto; padding: 2.25rem 2rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .35rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1rem; line-height: 1.3; margin: 1.5rem 0 -.75rem; overflow-wrap: anywhere; }
p, ul { max-width: 80ch; margin: .5rem 0; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
nav { display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; margin: .75rem 0 0;
  font-size: .875rem; }
.numbers { display: grid; gap: .75rem; margin: 1.5rem 0 0; padding: 0;
  grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); }
.numbers div { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem;
  padding: .8rem 1rem; min-width: 0; }
.numbers dt { color: var(--faint); font-size: .8125rem; overflow-wrap: anywhere; }
.numbers dd { margin: 0; }
.numbers .value { font-size: 1.5rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.numbers .more { color: var(--faint); font-size: .8125rem; font-variant-numeric: tabular-nums; }
.reading { border-left: 3px solid var(--mark); padding-left: 1.1rem; list-style: none;
  margin-left: 0; }
.figures { display: grid; gap: 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 46rem), 1fr)); }
figure { margin: 0; padding: 1rem 1.1rem .9rem; border: 1px solid var(--line);
  border-radius: .5rem; min-width: 0; }
figure img { display: block; width: 100%; height: auto; margin: 0; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--page); }
tbody tr:nth-child(even) td { background: var(--panel); }
tbody tr:target td { background: color-mix(in srgb, var(--mark) 18%, var(--page)); }
tr.flagged td:first-child { box-shadow: inset 3px 0 0 var(--mark); }
td.text:not(:first-child) { color: var(--faint); }
details { margin: 1.5rem 0 0; } summary { cursor: pointer; font-weight: 600; }
details .figures { margin-top: 1rem; }
code { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 40rem) { main { padding: 1.25rem 1rem 3rem; } }
@media print { main { padding: 0; max-width: none; } figure, tr { break-inside: avoid; }
  nav { display: none; } th button::after { content: ""; } }
"""


_EXECUTIONS = {
    "reference": "the arithmetic that the model file states",
    "runtime": "the fused kernels that ship",
}
_MOST_CHANNEL_FIGURES = 4
_MOST_FINDINGS = 8
_WORDS = (
    ("SQNR", "the signal's energy over the error's, in decibels; 6 dB are one bit. “Up to here” is "
     "the error of the whole network so far, “alone” that of this quantizer on the float value."),
    ("RMSE", "the root of the mean squared error in steps of the quantizer. Rounding alone gives "
     "0.289 of a step for values that are not exactly representable; “ideal” is that for these "
     "values, of which zeros are representable."),
    ("clipped", "the share of float values beyond what the quantizer can represent, before any "
     "rounding. Negative values before a ReLU are none of them."),
    ("range used", "how much of what the quantizer can represent the float values span."),
    ("cosine", "of the angle between float and quantized values: 1 where they differ in size at "
     "most."),
    ("inherited", "arrived through the layer's inputs: the float layer on the quantized network's "
     "inputs, minus the float network."),
    ("weights and bias", "what rounding the layer's own weights and bias adds."),
    ("rounding, clipping", "what rounding the output to a step, and cutting it to the range, add."),
    ("kernel", "what remains between the stated arithmetic and the integers that came out; only in "
     "runtime execution."),
    ("share", "a source's inner product with the whole error over the error's energy: all shares "
     "add up to 100 %, and one is negative where a source cancels part of the others."),
)  # fmt: skip


def comparison_html(
    comparison: Comparison,
    *,
    network: Network | None = None,
    pairing: Pairing | None = None,
    accuracy: EvaluationDelta | None = None,
    other: Comparison | None = None,
    other_network: Network | None = None,
    other_accuracy: EvaluationDelta | None = None,
    histograms: Histograms | None = None,
    versions: SideBySide | None = None,
) -> str:
    """Make one file that works offline, light or dark as the reader's system is.

    `network` is the quantized one and adds its scales, weights and residual branches; `pairing` the
    float weights beside them; `accuracy` (the quantized model's evaluation minus the float one's)
    what happened to the classes. `other` is a second quantized model against the same float one,
    `other_network` its network, for the parameters side by side, and `other_accuracy` as
    `accuracy`. Each of `histograms` is drawn, so give a few. `versions` gives `other`, which of the
    tensors match, and why the rest do not.
    """
    if versions is not None:
        other = versions.second
    title = f"{comparison.model} against {comparison.float_model}"
    if other is not None:
        title = f"{comparison.model} and {other.model} against {comparison.float_model}"
        if other.float_digest != comparison.float_digest:
            title += f" and {other.float_model}"
    parts = [
        _numbers(comparison, accuracy, named=other is not None),
        *([] if other is None else [_numbers(other, other_accuracy, named=True)]),
        _reading(comparison, named=other is not None),
        *([] if other is None else [_reading(other, named=True, linked=False)]),
        "<h2>Along the network</h2>",
        figures_html(pictures_along(comparison, network, pairing, other, versions)),
        _channels(comparison, network),
        _values(histograms),
        *([] if other is None else _versions(comparison, other, network, other_network, versions)),
        *(
            f"<h2>{table.title}</h2>{table_html(table, sorts=True)}"
            for table in comparison_tables(comparison)
        ),
        *(
            []
            if accuracy is None
            else ["<h2>Classes</h2>", figures_html(pictures_of_classes(accuracy))]
        ),
        *_missing(comparison),
        _how_to_read(),
        _provenance(comparison, network, other),
    ]
    contents, body = _add_contents("\n".join(parts))
    head = f"<h1>{text_html(title)}</h1>{_subtitle(comparison)}{contents}"
    return page(
        title, f"<main>\n{head}{body}\n</main>", style=STYLE + COMPARISON_STYLE, script=SORTING
    )


def _add_contents(body: str) -> tuple[str, str]:
    """Put a place at each heading of the body, and make links to them."""
    first, *parts = body.split("<h2>")
    placed = [f'<h2 id="part-{at}">{part}' for at, part in enumerate(parts)]
    links = [
        f'<a href="#part-{at}">{part.partition("</h2>")[0]}</a>' for at, part in enumerate(parts)
    ]
    return f"<nav>{' '.join(links)}</nav>", first + "".join(placed)


def _subtitle(comparison: Comparison) -> str:
    return (
        f'<p class="faint">{many(comparison.images, "image")} of {text_html(comparison.data)}, '
        f"{comparison.execution} execution: {_EXECUTIONS[comparison.execution]}.</p>"
    )


def _numbers(comparison: Comparison, accuracy: EvaluationDelta | None, *, named: bool) -> str:
    name = f"<h3>{text_html(comparison.model)}</h3>" if named else ""
    return f'{name}<dl class="numbers">{"".join(_cards(comparison, accuracy))}</dl>'


def _cards(comparison: Comparison, accuracy: EvaluationDelta | None) -> Iterator[str]:
    """Give the headline numbers; what was not measured has no card."""
    output = comparison.output
    if accuracy is not None:
        low, high = (format_signed(100 * end, "+.2f") for end in accuracy.interval_95)
        yield _card(
            "accuracy, float → quantized",
            f"{100 * accuracy.second.accuracy:.2f} → {100 * accuracy.first.accuracy:.2f} %",
            f"{format_signed(100 * accuracy.delta, '+.2f')} points [{low}, {high}] at 95 %",
        )
    if output is not None:
        yield _card(
            "put into the same class",
            f"{100 * output.class_agreement:.2f} %",
            f"{len(output.changed):,} changed: {len(output.gained):,} now right, "
            f"{len(output.lost):,} now wrong",
        )
    if comparison.activations:
        last = comparison.activations[-1]
        shown = "exact" if last.exact else number(last.sqnr_db, ".1f", " dB")
        yield _card(f"SQNR of {printable(last.name)}", shown, "the last tensor that was compared")
    if output is None:
        yield _card("classes", "none", str(comparison.no_output))
    else:
        yield _card(
            "KL of the outputs, float to quantized",
            "not finite" if output.kl_nats is None else f"{output.kl_nats:.3g} nats",
            f"mean over images, of the {output.kl_of}",
        )


def _card(name: str, value: str, more: str) -> str:
    return (
        f"<div><dt>{text_html(name)}</dt><dd class='value'>{text_html(value)}</dd>"
        f"<dd class='more'>{text_html(more)}</dd></div>"
    )


def _reading(comparison: Comparison, *, named: bool, linked: bool = True) -> str:
    """Say what stands out, each with a link to the tensor's row.

    The second model's tensors have no rows of their own to link to, so it is not `linked`.
    """
    found = reading(comparison)
    where = f" in {text_html(comparison.model)}" if named else ""
    normal = usual(comparison)
    lead = f"<p>{text_html(normal)}</p>" if normal else ""
    if not found:
        within = "<p>Every tensor is within what is usual for its bit width.</p>"
        return f"<h2>Nothing stands out{where}</h2>{lead}{within}"
    # A sentence begins with the name of its tensor.
    links = {f"{t.name}: ": anchor_of(comparison, t) for t in comparison.tensors if linked}
    lines = []
    for sentence in found:
        start = next((name for name in links if sentence.startswith(name)), "")
        link = f'<a href="#{links[start]}">{text_html(start[:-2])}</a>: ' if start else ""
        lines.append(f"<li>{link}{text_html(sentence[len(start) :])}</li>")
    first, more = _list(lines[:_MOST_FINDINGS]), lines[_MOST_FINDINGS:]
    if more:
        first += f"<details><summary>{len(more)} more</summary>{_list(more)}</details>"
    return f"<h2>What stands out{where}</h2>{lead}{first}"


def _list(lines: list[str]) -> str:
    return f'<ul class="reading">{"".join(lines)}</ul>'


def _channels(comparison: Comparison, network: Network | None) -> str:
    """Draw the channels of the tensors that stand out, else of the activation with most error."""
    marked = flag_tensors(comparison)
    chosen = [t for t in comparison.tensors if t.name in marked and len(t.channels) > 1]
    if not chosen:
        with_error = [t for t in comparison.activations if t.sqnr_db is not None and t.channels]
        chosen = sorted(with_error, key=lambda t: t.sqnr_db or 0.0)[:1]
    if not chosen:
        return ""
    pictures = [channel_picture(tensor, network) for tensor in chosen[:_MOST_CHANNEL_FIGURES]]
    why = "tensors that stand out" if marked else "the tensor with the lowest SQNR"
    return f"<details><summary>Channels of {why}</summary>{figures_html(pictures)}</details>"


def _versions(
    comparison: Comparison,
    other: Comparison,
    network: Network | None,
    other_network: Network | None,
    versions: SideBySide | None,
) -> Iterator[str]:
    """Show both versions tensor by tensor, then what only one of them has."""
    pair = (comparison, other)
    matched = match_tensors(*pair) if versions is None else matched_tensors(versions)
    table = side_by_side_table((network, other_network), matched)
    key = text_html(side_by_side_key(pair, len(matched)))
    yield _table(table, f'<p class="faint">{key}.</p>')
    if versions is not None and versions.only_in_one:
        lines = list_html(
            f"{'A' if each.version == 'first' else 'B'}: {each.tensor.name}: {each.reason}"
            for each in versions.only_in_one
        )
        yield f"<details><summary>In one version only</summary>{lines}</details>"


def _values(histograms: Histograms | None) -> str:
    if histograms is None or not histograms.tensors:
        return ""
    pictures = figures_html(map(histogram_picture, histograms.tensors))
    names = ", ".join(text_html(tensor.name) for tensor in histograms.tensors)
    return f"<details><summary>Values of {names}</summary>{pictures}</details>"


def _table(table: Table, about: str = "") -> str:
    return f"<h2>{text_html(table.title)}</h2>{about}{table_html(table, sorts=True)}"


def _classes(accuracy: EvaluationDelta | None) -> Iterator[str]:
    if accuracy is not None:
        yield "<h2>Classes</h2>"
        yield figures_html(pictures_of_classes(accuracy))


def _missing(comparison: Comparison) -> Iterator[str]:
    missing = [*comparison.unpaired, *comparison.unseen]
    if missing:
        yield "<h2>Not compared</h2>" + list_html(f"{t.name}: {t.reason}" for t in missing)


def _how_to_read() -> str:
    return f'<h2>How to read this</h2><dl class="facts">{facts_html(_WORDS)}</dl>'


def _provenance(comparison: Comparison, network: Network | None, other: Comparison | None) -> str:
    facts = [("quantized model", comparison.model, comparison.digest)]
    if other is not None:
        facts.append(("second model", other.model, other.digest))
    facts.append(("float model", comparison.float_model, comparison.float_digest))
    if other is not None and other.float_digest != comparison.float_digest:
        facts.append(("second float model", other.float_model, other.float_digest))
    facts.append(("images", f"{comparison.images:,} of {comparison.data}", comparison.data_digest))
    lines = [
        f"<dt>{name}</dt><dd>{text_html(text)}<br><code>sha256 {text_html(digest)}</code></dd>"
        for name, text, digest in facts
    ]
    plain = [("execution", f"{comparison.execution}, {_EXECUTIONS[comparison.execution]}")]
    plain += list(comparison.provenance.items())
    made = f'<h2>Made with</h2><dl class="facts">{"".join(lines)}{facts_html(plain)}</dl>'
    said = [] if network is None else provenance_facts(network)
    if not said:
        return made
    own = facts_html((fact.label.strip(), fact.text) for fact in said)
    heading = f"<h2>What {text_html(comparison.model)} says of itself</h2>"
    return f'{made}{heading}<dl class="facts">{own}</dl>'
