"""Show who is harmed by the configurations of a study: sentences, tables, and the samples."""

from collections.abc import Iterator

import numpy as np

from quantscope.data import Samples
from quantscope.plain_text import many
from quantscope.report.html import list_html, table_html, text_html
from quantscope.report.row_pictures import draw_row
from quantscope.report.table import Column, Table
from quantscope.report.wording import format_rounded, number
from quantscope.run import MEASURES
from quantscope.study.harm import Harm, HarmedSample

_MOST_PICTURES = 24
_SIDE_PIXELS = 96
_MOST_ROWS = 12


def harm_lines(harm: Harm) -> Iterator[str]:
    """Say how many samples are harmed, how far they were from it, and which classes."""
    word, variants = harm.sample_word, len(harm.variants)
    configurations = f"{variants} configuration{'s' * (variants != 1)}"
    where = f"by {harm.execution}"
    if not harm.tells_classes:
        if harm.worst:
            first = harm.worst[0]
            yield (
                f"What loses most over {configurations}, {where}: {word} {first.index}, "
                f"{_loss_text(harm, first)}."
            )
        return
    if not harm.ever:
        yield f"No {word} changes its class in any of {configurations}, {where}."
        return
    # A study of one has no "all of them" to tell apart.
    every = f", {harm.always:,} in all of them" if variants > 1 else ""
    yield (
        f"{harm.ever:,} of {many(harm.samples, word)} change their class in at least one of "
        f"{configurations}{every}, {where}."
    )
    if harm.safe_margin is not None and harm.median_margin_changed is not None:
        kept = harm.median_margin_kept
        others = "" if kept is None else f", of those that never do {number(kept)}"
        yield (
            f"The float model's margin (its largest score above the next) of {word}s that change "
            f"is {number(harm.median_margin_changed)} in the middle{others}; above "
            f"{number(harm.safe_margin)} none changed."
        )
    most = max(harm.classes, key=lambda each: each.changed / max(each.samples, 1))
    share = most.changed / (most.samples * variants)
    losses = f" ({most.lost:,} lost, {most.gained:,} gained)" if harm.has_labels else ""
    yield (
        f"Class {most.name} changes most: {share:.1%} of its {word}s in a configuration on "
        f"average{losses}."
    )
    if harm.moves:
        before, after, times = harm.moves[0]
        yield f"The most frequent change is {before} to {after}, {times:,} times."


def class_table(harm: Harm) -> Table:
    """Make a table of classes: how many of their samples change in any configuration."""
    right = ("lost", "gained") if harm.has_labels else ()
    rows = sorted(harm.classes, key=lambda each: -each.changed / max(each.samples, 1))
    return Table(
        "Classes",
        (
            Column("class by its label" if harm.has_labels else "class by the float model"),
            *(Column(h, right=True) for h in (f"{harm.sample_word}s", "ever change", "changes")),
            *(Column(h, right=True) for h in right),
        ),
        tuple(
            (
                each.name,
                f"{each.samples:,}",
                f"{each.ever:,}",
                f"{each.changed:,}",
                *((f"{each.lost:,}", f"{each.gained:,}") if harm.has_labels else ()),
            )
            for each in rows
        ),
    )


def sample_table(harm: Harm) -> Table:
    """Make a table of those that are harmed most, with the float model's margin."""
    shown = harm.worst[:_MOST_ROWS]
    if not harm.tells_classes:
        return Table(
            "Samples",
            (
                Column(harm.sample_word),
                Column(_loss_heading(harm), right=True),
                Column("worst", right=True),
                Column("in"),
            ),
            tuple(
                (
                    str(each.index),
                    _number(harm, each.mean_loss),
                    _number(harm, each.worst_loss),
                    each.worst_variant or "–",
                )
                for each in shown
            ),
        )
    return Table(
        "Samples",
        (
            Column(harm.sample_word),
            *([Column("label")] if harm.has_labels else []),
            Column("float model"),
            Column("margin", right=True),
            Column(f"changes, of {len(harm.variants)}", right=True),
            Column("to"),
        ),
        tuple(
            (
                str(each.index),
                *([each.label or "–"] if harm.has_labels else []),
                each.float_class or "–",
                "–" if each.margin is None else number(each.margin),
                str(each.changed),
                _went(each),
            )
            for each in shown
        ),
    )


def harm_html(harm: Harm, samples: Samples | None) -> str:
    """Write the section of a report; `samples` gives pictures where its rows are any."""
    parts = ["<h2>Who is harmed</h2>", list_html(harm_lines(harm))]
    if harm.worst:
        parts.append(_gallery(harm, samples) or table_html(sample_table(harm)))
    if harm.classes and harm.ever:
        parts.append(table_html(class_table(harm)))
    return "\n".join(parts)


def _gallery(harm: Harm, samples: Samples | None) -> str:
    """Show those that are harmed most as pictures; empty where the samples are none."""
    if samples is None or samples.digest != harm.data_digest or samples.shown_as() != "picture":
        return ""
    places = {int(index): row for row, index in enumerate(samples.indices)}
    cards = []
    for each in harm.worst[:_MOST_PICTURES]:
        row = places.get(each.index)
        source = "" if row is None else _picture(samples, row)
        if source:
            text = text_html(_caption(harm, each))
            cards.append(
                f'<figure class="harmed"><img alt="{text}" src="{source}">'
                f"<figcaption>{text}</figcaption></figure>"
            )
    return f'<div class="harmed">{"".join(cards)}</div>' if cards else ""


def _picture(samples: Samples, row: int) -> str:
    for name, array in samples.arrays.items():
        if samples.shown_as(name) == "picture":
            return draw_row(np.asarray(array[row]), most=_SIDE_PIXELS)
    return ""


def _caption(harm: Harm, each: HarmedSample) -> str:
    if not harm.tells_classes:
        return f"{each.index}: {_loss_text(harm, each)}"
    label = "" if each.label is None or each.label == each.float_class else f" ({each.label})"
    margin = "" if each.margin is None else f", margin {number(each.margin)}"
    return (
        f"{each.index}: {each.float_class}{label} to {_went(each)}, in {each.changed} of "
        f"{len(harm.variants)}{margin}"
    )


def _went(each: HarmedSample) -> str:
    return ", ".join(
        name if len(each.classes) == 1 else f"{name} {times}" for name, times in each.classes
    )


def _loss_heading(harm: Harm) -> str:
    unit = "points" if harm.unit == "share" else harm.unit
    what = "loses on average" if harm.has_float_score else f"{harm.measure} on average"
    return f"{what}, {unit}" if unit else what


def _loss_text(harm: Harm, each: HarmedSample) -> str:
    unit = "" if harm.unit in ("share", "") else f" {harm.unit}"
    found = f"{_number(harm, each.mean_loss)}{unit}"
    return f"{found} lost on average" if harm.has_float_score else f"{harm.measure} {found}"


def _number(harm: Harm, value: float | None) -> str:
    """Write what is lost; without a float score it is the sample's own, turned back."""
    if value is None:
        return "–"
    if not harm.has_float_score and harm.higher_is_better:
        value = -value
    return format_rounded(value, ".2f" if harm.unit == MEASURES["signal"].unit else ".4g")


HARM_STYLE = """
div.harmed { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr));
  gap: .75rem; }
figure.harmed { margin: 0; }
figure.harmed img { width: 96px; max-width: 100%; padding: 0; image-rendering: pixelated; }
figure.harmed figcaption { font-size: .75rem; line-height: 1.35; }
"""
