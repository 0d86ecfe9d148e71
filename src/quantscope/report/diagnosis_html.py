"""Write a diagnosis as one page that needs nothing else."""

from collections.abc import Iterator

from quantscope.diagnose import Diagnosis, Finding
from quantscope.plain_text import many
from quantscope.report.diagnosis_text import (
    account_table,
    attempt_text,
    cost_text,
    findings_title,
    layer_table,
    layers_intro,
    tried_text,
)
from quantscope.report.html import facts_html, list_html, table_html, text_html
from quantscope.report.page import SORTING, STYLE, page

_STYLE = """
main { max-width: 76rem; margin: 0 auto; padding: 2.25rem 2rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .35rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1rem; line-height: 1.3; margin: 0 0 .35rem; }
p, ul { max-width: 90ch; margin: .5rem 0; overflow-wrap: anywhere; }
section { border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1.1rem;
  margin: 1rem 0; }
section.costs { border-left: 3px solid var(--mark); }
.faint { color: var(--faint); }
.helps { font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
code { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media (max-width: 40rem) { main { padding: 1.25rem 1rem 3rem; } }
@media print { main { padding: 0; max-width: none; } section, tr { break-inside: avoid; } }
"""


def diagnosis_html(result: Diagnosis) -> str:
    """Make one file that works offline, light or dark as the reader's system is."""
    title = f"Diagnosis of {result.model}"
    body = "\n".join(_parts(result))
    return page(
        title,
        f"<main>\n<h1>{text_html(title)}</h1>\n{body}\n</main>",
        style=STYLE + _STYLE,
        script=SORTING,
    )


def _parts(result: Diagnosis) -> Iterator[str]:
    account = result.account
    yield (
        f'<p class="faint">against {text_html(result.float_model)}, {result.execution} execution, '
        f"{many(result.images, result.sample_word)} of {text_html(result.data)}</p>"
    )
    yield f"<h2>{text_html(findings_title(result))}</h2>"
    for place, finding in enumerate(result.findings, start=1):
        yield _finding(place, finding, result)
    if result.together is not None:
        yield f"<p><b>All that helped, together:</b> {text_html(attempt_text(result.together))}</p>"
    if result.findings and not result.was_tried:
        yield '<p class="faint">Nothing was tried; --try measures every proposal.</p>'
    yield "<h2>The account</h2>"
    table = account_table(account)
    yield f'<p class="faint">{text_html(table.title)}</p>{table_html(table)}'
    if account.layers:
        yield "<h2>Where it sits</h2>"
        yield f"<p>{text_html(layers_intro(account))}</p>"
        yield table_html(layer_table(account), sorts=True)
    if result.notes:
        yield f"<h2>To know</h2>{list_html(result.notes)}"
    yield f"<h2>Provenance</h2><dl>{facts_html(_facts(result))}</dl>"


def _finding(place: int, finding: Finding, result: Diagnosis) -> str:
    costs = finding.cost is not None and finding.cost.helps
    tried = {attempt.remedy.what: attempt for attempt in finding.attempts}
    remedies = []
    for remedy in finding.remedies:
        attempt = tried.get(remedy.what)
        how = f" <code>{text_html(remedy.command)}</code>" if remedy.command else ""
        said = "" if attempt is None else f": {text_html(tried_text(attempt))}"
        kind = ' class="helps"' if attempt is not None and attempt.helps else ""
        remedies.append(f"<li{kind}>{text_html(remedy.what)}{how}{said}</li>")
    return (
        f'<section id="{text_html(finding.kind)}"{" class=costs" if costs else ""}>'
        f"<h3>{place}. {text_html(finding.title)}</h3>"
        f"<p><b>{text_html(cost_text(finding, result.account.quantized.unit))}</b></p>"
        f"{list_html(f'{each.where}: {each.seen}' for each in finding.places)}"
        f"<p>{text_html(finding.why)} <code>{text_html(finding.link)}</code></p>"
        f"<p>What can be tried:</p><ul>{''.join(remedies)}</ul></section>"
    )


def _facts(result: Diagnosis) -> Iterator[tuple[str, str]]:
    yield "model", f"{result.model}, sha256 {result.digest}"
    yield "float model", f"{result.float_model}, sha256 {result.float_digest}"
    yield "data", f"{result.data}, sha256 {result.data_digest}"
    if result.calibration is not None:
        yield "calibration", result.calibration
    yield from result.provenance.items()
