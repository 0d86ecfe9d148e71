"""Show what the models answer to one sample: the likeliest classes, or every output as it is."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.app.accuracies import Accuracies
from quantscope.app.panes.parts import line, safe, table
from quantscope.app.panes.sample_rows import numbers_text, row_html, thumbnail_of
from quantscope.app.panes.scores import value_text
from quantscope.app.pictures import THUMBNAIL_SIDE, heat_map
from quantscope.app.words import EXECUTIONS, word
from quantscope.report import number, shape_text
from quantscope.run import Classes, Evaluation, Score

_TOP = 5
_VALUES = 12
_MAPS = 4
_WORST = 36
# Quantized probabilities add up to 1 only so nearly.
_NEARLY = 0.05
_NAMES = {
    "float": word("float", "float"),
    "reference": word("reference", EXECUTIONS["reference"]),
    "runtime": word("runtime", EXECUTIONS["runtime"]),
    "edited": f"edited, {word('reference', EXECUTIONS['reference'])}",
}


def filters(found: Accuracies) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Give key, name and rows of each filter; those that cannot be told yet are left out."""
    count = len(found.images)
    noun = "images" if found.images.shown_as() == "picture" else "samples"
    yield "all", f"all {noun}", np.arange(count)
    shown, floats = found.shown, found.float_
    classes = shown.classes if shown else None
    if shown is None or classes is None:
        yield from _worst(found)
        return
    if classes.targets is not None:
        yield "wrong", "wrong", np.flatnonzero(~classes.right)
    if found.quantized is not None and floats is not None and floats.classes is not None:
        flipped = classes.predictions != floats.classes.predictions
        yield "flipped", "flipped by quantization", np.flatnonzero(flipped)
    if classes.targets is not None:
        for place, name in enumerate(classes.names):
            yield f"class {place}", f"class {name}", np.flatnonzero(classes.targets == place)


def _worst(found: Accuracies) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    score = _score(found)
    if score is None:
        return
    order = np.argsort(score.per_sample if score.higher_is_better else -score.per_sample)
    known = order[~np.isnan(score.per_sample[order])]
    name = "lowest" if score.higher_is_better else "highest"
    yield "worst", f"{name} {score.measure}", known[:_WORST]


def _score(found: Accuracies) -> Score | None:
    return found.shown.scored if found.shown else None


def item_of(found: Accuracies, row: int) -> dict[str, Any]:
    """Give what `Thumbnails.items` has of one sample."""
    index = int(found.images.indices[row])
    item = {"index": index, **thumbnail_of(found.images, row)}
    classes = found.shown.classes if found.shown else None
    if classes is None:
        score = _score(found)
        said = "" if score is None else _number_of(score, row)
        none = {"label": "", "float": said, "wrong": False}
        return {**item, **none, "quantized": said, "title": f"Sample {index}: {said}"}
    names = [*classes.names, "NaN"]  # the prediction is -1 where a score is NaN
    floats = found.float_.classes if found.float_ and found.float_.classes else classes
    label = "" if classes.targets is None else names[classes.targets[row]]
    one, two = names[floats.predictions[row]], names[classes.predictions[row]]
    what = f"Image {index}, a {label}" if label else f"Sample {index}"
    return {
        **item,
        "label": label,
        "float": one,
        "quantized": two,
        "wrong": two != (label or one),
        "title": f"{what}: float says {one}, quantized {two}",
    }


def _number_of(score: Score, row: int) -> str:
    """Write the number of one sample with its unit."""
    value = float(score.per_sample[row])
    if np.isnan(value):
        return "exact" if score.unit == "dB" else "–"
    return value_text(value, score.unit)


def answer_html(found: Accuracies, row: int, *, edited: Evaluation | str | None = None) -> str:
    """Show one sample and what each model says of it.

    `edited` is what the edited model says of this sample alone, or a text in its place.
    """
    shown = found.shown
    classes = shown.classes if shown else None
    if classes is None or any(e.classes is None for _, e, _ in _runs(found, row, edited)):
        body = outputs_html(found, row, edited=edited)
    else:
        body = _classes_html(found, row, classes, edited)
    noun = "image" if found.images.shown_as() == "picture" else "sample"
    label = ""
    if classes is not None and classes.targets is not None:
        label = f": {safe(classes.names[int(classes.targets[row])])}"
    elif shown is not None and shown.scored is not None:
        label = f": {_number_of(shown.scored, row)}" if shown.scored.unit != "share" else ""
    kind = "qs-pictured" if found.images.shown_as() == "picture" else "qs-listed"
    return (
        f'<div class="qs-card qs-prediction {kind}" data-testid="prediction">'
        f'<div class="qs-row">{row_html(found.images, row)}</div>'
        f"<div><h2>{noun} {found.images.indices[row]:,}{label}</h2>{body}</div></div>"
    )


_Run = tuple[str, Evaluation, int]
"""A run's name, what it gave, and the row of the sample in it."""


def _runs(found: Accuracies, row: int, edited: Evaluation | str | None) -> Iterator[_Run]:
    for which in ("float", "reference", "runtime"):
        if (evaluation := found.of(which)) is not None:
            yield which, evaluation, row
    if isinstance(edited, Evaluation):
        yield "edited", edited, 0


def _classes_html(
    found: Accuracies, row: int, classes: Classes, edited: Evaluation | str | None
) -> str:
    label = None if classes.targets is None else int(classes.targets[row])
    held = label
    if held is None and found.float_ is not None and found.float_.classes is not None:
        held = int(found.float_.classes.predictions[row])
    columns = "".join(
        _column(which, evaluation, at, held, is_label=label is not None, like=found.shown)
        for which, evaluation, at in _runs(found, row, edited)
    )
    if isinstance(edited, str):
        columns += f'<div class="qs-of-edited"><h3>edited</h3>{line(edited, kind="qs-faint")}</div>'
    return f'<div class="qs-columns">{columns}</div>'


def probabilities(
    evaluation: Evaluation, row: int, *, like: Evaluation | None = None
) -> NDArray[np.float64]:
    """Give the softmax of the scores, or the scores where the model ends in one.

    Quantized probabilities of one image need not add up to 1; over all images they nearly do.
    `like` is of many images, by a model that ends as this one's does: a few images cannot tell.
    """
    scores = np.asarray(evaluation.scores[row], np.float64)
    known = (like or evaluation).scores
    sums = known.sum(axis=1, dtype=np.float64)
    if known.min() >= 0 and np.abs(np.median(sums) - 1) < _NEARLY:
        return scores
    # The largest is subtracted so that no power overflows.
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


def _column(
    which: str,
    evaluation: Evaluation,
    row: int,
    held: int | None,
    *,
    is_label: bool,
    like: Evaluation | None,
) -> str:
    """Show the likeliest classes; `held` is the one to be held against, a label or float's."""
    names = evaluation.class_names
    shares = probabilities(evaluation, row, like=like if which == "edited" else None)
    best = np.argsort(-shares, kind="stable")[:_TOP]
    lines = "".join(
        f'<tr class="{"qs-true" if k == held else ""}"><td>{safe(names[k])}</td>'
        f'<td class="qs-share"><i style="width:{100 * shares[k]:.1f}%"></i></td>'
        f'<td class="qs-right">{100 * shares[k]:.1f} %</td></tr>'
        for k in best
    )
    wrong = "wrong" if is_label else "not float's"
    verdict = "" if held is None or best[0] == held else f' <span class="qs-bad">{wrong}</span>'
    return (
        f'<div class="qs-of-{which}" data-testid="prediction-{which}">'
        f"<h3>{_NAMES[which]}{verdict}</h3>"
        f'<table class="qs-shares">{lines}</table></div>'
    )


def outputs_html(found: Accuracies, row: int, *, edited: Evaluation | str | None = None) -> str:
    """Show every output of a sample: its values by each model, and how far they are from float."""
    runs = list(_runs(found, row, edited))
    shown = found.shown
    if shown is None:
        return ""
    parts = [_output_html(name, runs) for name in shown.outputs]
    if isinstance(edited, str):
        parts.append(line(f"edited: {edited}", kind="qs-faint"))
    parts += [line(f"{name}: {why}", kind="qs-faint") for name, why in shown.left_out.items()]
    return "".join(parts)


def _output_html(name: str, runs: Sequence[_Run]) -> str:
    values = {
        which: np.asarray(evaluation.outputs[name][row])
        for which, evaluation, row in runs
        if name in evaluation.outputs
    }
    floats = values.get("float")
    first = next(iter(values.values()))
    head = ("", word("sqnr", "SQNR"), "largest difference", f"first of {first.size:,} values")
    rows = [_cells(which, found, floats) for which, found in values.items()]
    maps = _maps(values)
    return (
        f'<div class="qs-output" data-testid="output"><h3>{safe(name)} '
        f'<span class="qs-faint">{first.dtype} {safe(shape_text(first.shape))}</span></h3>'
        f"{table(head, rows, right=(1, 2))}{maps}</div>"
    )


def _cells(which: str, found: NDArray[Any], floats: NDArray[Any] | None) -> tuple[str, ...]:
    sqnr, largest = "", ""
    if floats is not None and which != "float" and floats.shape == found.shape:
        one, two = (np.asarray(v, np.float64).ravel() for v in (floats, found))
        with np.errstate(all="ignore"):
            noise, signal = ((two - one) ** 2).sum(), (one**2).sum()
            largest = number(float(np.abs(two - one).max(initial=0.0)))
        sqnr = "exact" if noise == 0 else "–"
        if noise > 0 and signal > 0:
            sqnr = f"{10 * np.log10(signal / noise):.1f} dB".replace("-", "−")
    values = f'<span class="qs-ids">{numbers_text(found, _VALUES)}</span>'
    return _NAMES[which], sqnr, largest, values


def _maps(values: dict[str, NDArray[Any]]) -> str:
    """Draw the first channels of an output that has the form of a picture."""
    first = next(iter(values.values()))
    if first.ndim != 3 or min(first.shape[1:]) < 8:
        return ""
    shown = "".join(
        f'<figure class="qs-of-{which}">'
        + "".join(
            f'<img src="{heat_map(channel, most=THUMBNAIL_SIDE)}" alt="">'
            for channel in found[:_MAPS]
        )
        + f"<figcaption>{_NAMES[which]}</figcaption></figure>"
        for which, found in values.items()
    )
    return f'<div class="qs-output-maps">{shown}</div>'
