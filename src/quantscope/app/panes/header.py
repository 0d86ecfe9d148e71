"""Show what is opened, and its accuracies side by side."""

from collections.abc import Iterator
from html import escape

import marimo as mo
import numpy as np

from quantscope.app.accuracies import ACCURACY, Accuracies, Of
from quantscope.app.panes.kernel_line import kernel_lines
from quantscope.app.panes.parts import MAKE_ROWS, OPEN_DATA, OPEN_FLOAT, QUANTIZE, missing, safe
from quantscope.app.panes.scores import delta_text, ends_text, score_text
from quantscope.app.session import Session
from quantscope.app.words import EXECUTIONS, word
from quantscope.plain_text import printable
from quantscope.report import FORMATS, amount, quantized_text
from quantscope.run import Evaluation, Score

_MISSING = {
    "reference": "a TorchScript archive has no reference execution here",
    "runtime": "a PT2E program has no shipped kernels here",
}


def title(session: Session, *, error: str = "") -> mo.Html:
    """Name the model and its facts; below them, what is wrong or missing."""
    opened = session.opened
    network = opened.network
    facts = [
        FORMATS[network.format],
        f"{len(network.layers):,} layers",
        f"{amount(network.macs)} MACs",
        f"weights {amount(network.weight_bytes, 'B')}",
    ]
    if network.is_quantized:
        facts.append(quantized_text(network))
    made_from = ""
    if opened.float_path is not None:
        made_from = (
            f'<span class="qs-faint">from {escape(printable(opened.float_path.name))}</span>'
        )
    lines = [missing(text, *offers) for text, *offers in _missing(session, error)]
    return mo.Html(
        '<button type="button" class="qs-skip">Skip to the tabs</button>'
        '<div class="qs-title"><b class="qs-brand">quantscope</b>'
        f'<h1 class="qs-model" data-testid="model">{escape(printable(opened.name))}</h1>'
        f"{made_from}"
        f'<span class="qs-faint qs-facts">{escape(" · ".join(facts))}</span></div>' + "".join(lines)
    )


def _missing(session: Session, error: str) -> Iterator[tuple[str, ...]]:
    """Say what was not given and what is used instead, each with the buttons that bring it."""
    opened = session.opened
    if error:
        yield (error,)
    if opened.is_float:
        text = "This is a float model: nothing in it is quantized yet."
        yield (text, QUANTIZE) if opened.model.framework == "onnx" else (text,)
    elif opened.no_float:
        yield opened.no_float, OPEN_FLOAT
    elif opened.is_stand_in:
        yield (
            "No float original is known: the model with its quantizers off stands in for it, so "
            "what rounding its weights cost is not seen.",
            OPEN_FLOAT,
        )
    if session.sample.is_random:
        rows = session.sample.describe_origin()
        yield f"Without data of yours: {rows}. Nothing is said of accuracy.", OPEN_DATA


def numbers(session: Session) -> mo.Html:
    """Show the scores. Places are there before their numbers, so that nothing jumps."""
    found = session.accuracies
    opened = session.opened
    label = "quantizers off" if opened.is_stand_in else "float"
    parts = [_number(session, found, "float", label)]
    if not opened.is_float:
        parts.append(_number(session, found, "reference", EXECUTIONS["reference"]))
        parts.append(_number(session, found, "runtime", EXECUTIONS["runtime"]))
    parts.append(_measure(found))
    parts.append(_count(session, found))
    return mo.Html(
        f'<div class="qs-numbers" data-testid="numbers">{"".join(parts)}</div>'
        f"{kernel_lines(session, found)}"
        f"{_unscored(session, found)}{_misfit(session)}"
    )


def _measure(found: Accuracies | None) -> str:
    """Say what the numbers are of; an accuracy in percent is known by its looks."""
    if found is None or found.score is None or found.score.measure == ACCURACY:
        return ""
    score = found.score
    better = "higher is better" if score.higher_is_better else "lower is better"
    unit = "" if score.unit == "share" else f", in {score.unit}"
    return (
        f'<div class="qs-number qs-measure" data-testid="measure"><span class="qs-label">'
        f'{word("measure", "measured")}</span><span class="qs-named">{safe(score.measure)}</span>'
        f'<span class="qs-delta">{better}{safe(unit)}</span></div>'
    )


def _count(session: Session, found: Accuracies | None) -> str:
    noun = f"{session.noun}s"
    count = f"{len(found.images):,}" if found else "–"
    return (
        f'<div class="qs-number qs-count"><span class="qs-label">{word("images", noun)}</span>'
        f'<span class="qs-value" data-testid="image-count">{count}</span>'
        f'<span class="qs-delta">{safe(_data_name(found))}</span></div>'
    )


def _number(session: Session, found: Accuracies | None, of: Of, label: str) -> str:
    """Show one score, or why there is none."""
    evaluation = found.of(of) if found else None
    value, delta = "…", "&nbsp;"
    if evaluation is not None and found is not None:
        value, delta = _scored(session, found, of, evaluation)
    elif "images" in session.failures:
        value = "–"
    elif of == "float" and session.opened.no_float:
        value, delta = "–", "not known"
    elif of in session.failures:
        value, delta = "–", f'<span class="qs-bad">{escape(session.failures[of])}</span>'
    elif of != "float" and of not in session.opened.executions:
        value, delta = "–", escape(_MISSING[of])
    return (
        f'<div class="qs-number" data-testid="accuracy-{of}">'
        f'<span class="qs-label qs-{of}">{_label(session, of, label)}</span>'
        f'<span class="qs-value">{value}</span><span class="qs-delta">{delta}</span></div>'
    )


def _label(session: Session, of: Of, label: str) -> str:
    return word("stand_in" if of == "float" and session.opened.is_stand_in else of, label)


def _scored(session: Session, found: Accuracies, of: Of, evaluation: Evaluation) -> tuple[str, str]:
    score = evaluation.scored
    if score is None:
        held = of == "float" and not session.opened.is_float
        return "–", "the others are held against it" if held else "no score"
    if np.isnan(score.value) and evaluation.against_float is not None:
        exact = all(output.exact for output in evaluation.against_float.outputs)
        return ("exact" if exact else "–"), ("no difference" if exact else "not finite")
    return score_text(score), _delta(found, of, score)


def _delta(found: Accuracies, of: Of, score: Score) -> str:
    against = None if of == "float" else found.against_float(of)
    text = ends_text(score) if against is None else delta_text(against)
    return f'<span class="qs-word" data-word="interval" tabindex="0">{text}</span>' if text else ""


def _unscored(session: Session, found: Accuracies | None) -> str:
    """Say why nothing could be scored, and what to give."""
    shown = found.shown if found else None
    if shown is None or shown.scored is not None:
        return ""
    if session.opened.is_float and session.sample.is_random:
        return ""  # it is said above
    if session.opened.is_float:
        return missing("Without labels, nothing says how good a float model is.", OPEN_DATA)
    return missing(shown.no_score, OPEN_FLOAT)


def _misfit(session: Session) -> str:
    why = session.failures.get("images")
    if why is None:
        return ""
    return (
        f'<p class="qs-line qs-bad" role="alert" data-testid="misfit">{safe(why)} '
        f"{MAKE_ROWS}{OPEN_DATA}</p>"
    )


def _data_name(found: Accuracies | None) -> str:
    if found is None:
        return ""
    images = found.images
    if images.is_random:
        return "made at random"
    return "CIFAR-10 test" if images.name.startswith("cifar10") else images.name
