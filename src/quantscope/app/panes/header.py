"""Show what is opened, and its accuracies side by side."""

from html import escape

import marimo as mo

from quantscope.app.accuracies import Accuracies, Of
from quantscope.app.panes.parts import safe
from quantscope.app.session import Session
from quantscope.app.words import word
from quantscope.plain_text import printable
from quantscope.report import FORMATS, amount, quantized_text, signed
from quantscope.run import Evaluation

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
    lines = [line for line in (error, opened.no_float) if line]
    if opened.is_float:
        lines.append(
            f"This is a float model: nothing in it is quantized yet. Quantize it with: quantscope "
            f"quantize {opened.path.name} -o OUT.onnx, and open OUT.onnx."
        )
    return mo.Html(
        '<div class="qs-title"><b class="qs-brand">quantscope</b>'
        f'<span class="qs-model" data-testid="model">{escape(printable(opened.name))}</span>'
        f"{made_from}"
        f'<span class="qs-faint qs-facts">{escape(" · ".join(facts))}</span></div>'
        + "".join(f'<p class="qs-line" role="alert">{escape(printable(x))}</p>' for x in lines)
    )


def numbers(session: Session) -> mo.Html:
    """Show the accuracies. Places are there before their numbers, so that nothing jumps."""
    found = session.accuracies
    parts = [_number(session, found, "float", "float")]
    if not session.opened.is_float:
        parts.append(_number(session, found, "reference", "its arithmetic"))
        parts.append(_number(session, found, "runtime", "this CPU's kernels"))
    count = f"{len(found.images):,}" if found else "–"
    parts.append(
        f'<div class="qs-number qs-count"><span class="qs-label">{word("images", "images")}</span>'
        f'<span class="qs-value" data-testid="image-count">{count}</span>'
        f'<span class="qs-delta">{escape(_data_name(found))}</span></div>'
    )
    return mo.Html(
        f'<div class="qs-numbers" data-testid="numbers">{"".join(parts)}</div>{_gap(found)}'
        f"{_misfit(session)}"
    )


def percent(accuracy: float, images: int) -> str:
    """Write one digit for a thousand images, two where the sample supports them."""
    return f"{100 * accuracy:.{1 if images <= 1000 else 2}f} %"


def points(delta: float, interval: tuple[float, float], images: int) -> str:
    """Write `−0.2 [−0.7, +0.3]`, in points; no line breaks within it."""
    form = "+.1f" if images <= 1000 else "+.2f"
    low, high = (signed(100 * end, form) for end in interval)
    return f"{signed(100 * delta, form)} [{low}, {high}]".replace(" ", "\N{NO-BREAK SPACE}")


def _number(session: Session, found: Accuracies | None, of: Of, label: str) -> str:
    """Show one accuracy, or why there is none."""
    evaluation = found.of(of) if found else None
    value, delta = "…", "&nbsp;"
    if evaluation is not None and found is not None:
        value = percent(evaluation.accuracy, evaluation.images)
        delta = _delta(found, of, evaluation)
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
        f'<span class="qs-label qs-{of}">{word(of, label)}</span>'
        f'<span class="qs-value">{value}</span><span class="qs-delta">{delta}</span></div>'
    )


def _delta(found: Accuracies, of: Of, evaluation: Evaluation) -> str:
    against = None if of == "float" else found.against_float(of)
    if against is None:
        low, high = evaluation.interval_95
        digits = 1 if evaluation.images <= 1000 else 2
        text = f"[{100 * low:.{digits}f}, {100 * high:.{digits}f}]"
    else:
        text = points(against.delta, against.interval_95, evaluation.images)
    return f'<span class="qs-word" data-word="interval" tabindex="0">{text}</span>'


def _misfit(session: Session) -> str:
    why = session.failures.get("images")
    if why is None:
        return ""
    return f'<p class="qs-line qs-bad" role="alert" data-testid="misfit">{safe(why)}</p>'


def _gap(found: Accuracies | None) -> str:
    if found is None or found.gap is None:
        return ""
    explanation = found.gap.explanation()
    if explanation is None:
        return ""
    delta = found.gap.paired
    size = points(delta.delta, delta.interval_95, delta.first.images)
    return (
        f'<p class="qs-line qs-gap" data-testid="gap">{word("gap", "kernel gap")} '
        f"<b>{escape(size)}</b> {escape(explanation)}</p>"
    )


def _data_name(found: Accuracies | None) -> str:
    if found is None:
        return ""
    return "CIFAR-10 test" if found.images.name.startswith("cifar10") else found.images.name
