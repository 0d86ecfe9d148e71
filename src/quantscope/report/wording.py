"""Write names, numbers and shapes as a person reads them."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Protocol

from quantscope.model import AttributeValue, Dim, Layer, Shape
from quantscope.plain_text import elide, many, printable
from quantscope.run import MEASURES, Evaluation, EvaluationDelta, Score, ScoreDelta

_SHORT = {"kernel_shape": "", "strides": "s", "pads": "p", "dilations": "d", "group": "g"}
_NEUTRAL = {"strides": 1, "pads": 0, "dilations": 1}


def format_rounded(value: float, form: str) -> str:
    """Format a number; what rounds to zero is a plain zero: `0.0%`, never `-0.0%`."""
    text = format(value, form)
    return format(0.0, form) if float(text.rstrip("%")) == 0 else text


def format_signed(value: float, form: str = "+g") -> str:
    """Format a number with its sign, a true minus, and a bare 0."""
    text = format(value, form)
    return "0" if float(text) == 0 else text.replace("-", "−")


def number(value: float) -> str:
    """Format with four significant digits."""
    return f"{value:.4g}"


class ComparedWithFloat(Protocol):
    """The facts that a comparison and a sensitivity have in common: models, execution, images."""

    @property
    def model(self) -> str: ...
    @property
    def float_model(self) -> str: ...
    @property
    def execution(self) -> str: ...
    @property
    def images(self) -> int: ...
    @property
    def sample_word(self) -> str: ...
    @property
    def data(self) -> str: ...


def origin_text(result: ComparedWithFloat) -> str:
    """Name the two models, the quantized one's execution, and the images."""
    return (
        f"{result.model} against {result.float_model}, {result.execution} execution, "
        f"{many(result.images, result.sample_word)} of {result.data}"
    )


def is_accuracy(evaluation: Evaluation) -> bool:
    """Say whether what was measured is top-1 accuracy."""
    found = evaluation.scored
    return found is not None and found.measure == MEASURES["top1"].name


def score_text(score: Score) -> str:
    """Give a score's number with its unit and its interval: `23.41 dB  [22.9, 23.9] at 95 %`."""
    interval = score.interval_95
    if score.unit == "share":
        ends = "" if interval is None else "  [{:.2%}, {:.2%}] at 95 %".format(*interval)
        return f"{score.value:.2%}{ends}"
    unit = f" {score.unit}" if score.unit else ""
    if isnan(score.value):
        return "–, for no sample has a number"
    if score.unit == "dB":
        ends = "" if interval is None else "  [{:.2f}, {:.2f}] at 95 %".format(*interval)
        return f"{score.value:.2f}{unit}{ends}"
    ends = "" if interval is None else "  [{:.4g}, {:.4g}] at 95 %".format(*interval)
    better = "" if score.higher_is_better else " (lower is better)"
    return f"{number(score.value)}{unit}{ends}{better}"


def evaluation_delta_text(delta: EvaluationDelta) -> str:
    """Give the difference of two scores on the same samples, and how sure it is."""
    word, scores = delta.first.sample_word, delta.scores
    if not (scores.is_share and scores.first.unit == "share"):
        return _score_delta_text(scores, word)
    low, high = (format_rounded(100 * bound, "+.2f") for bound in delta.interval_95)
    return (
        f"{format_rounded(100 * delta.delta, '+.2f')} points [{low}, {high}] at 95 %, "
        f"{many(len(delta.gained), word)} gained, {len(delta.lost)} lost, "
        f"{len(delta.changed)} classified differently, McNemar exact p = {delta.p_value:.3g}"
    )


def _score_delta_text(delta: ScoreDelta, sample_word: str) -> str:
    """Give the mean difference of any numbers, its interval, and the samples on either side."""
    if not delta.samples:
        return f"no {sample_word} has a number in both"
    unit = f" {delta.first.unit}" if delta.first.unit else ""
    form = "+.2f" if delta.first.unit == "dB" else "+.3g"
    interval, p = delta.interval_95, delta.p_value
    parts = [f"{format_rounded(delta.delta, form)}{unit}"]
    if interval is not None:
        low, high = (format_rounded(end, form) for end in interval)
        parts[0] += f" [{low}, {high}] at 95 % ({delta.interval_of})"
    parts.append(f"{many(len(delta.better), sample_word)} better, {len(delta.worse)} worse")
    if delta.most_worse:
        index, lost = delta.most_worse[0]
        parts.append(f"most so {sample_word} {index} ({format_rounded(lost, form)})")
    if p is not None:
        parts.append(f"{delta.p_of} p = {p:.3g}")
    return ", ".join(parts)


def count(amount: int | None) -> str:
    """Write an exact number with separators; `?` where it is not known."""
    return "?" if amount is None else f"{amount:,}"


def amount(value: int | None, unit: str = "") -> str:
    """Write three digits and a decimal prefix: `12.5 M`, `78.7 kB`; `?` where it is not known."""
    if value is None:
        return "?"
    prefixes = ("", "k", "M", "G", "T", "P")
    size = float(value)
    for prefix in prefixes:
        # From 999.5 on, three digits would round to 1e+03.
        if size < 999.5 or prefix == prefixes[-1]:
            digits = f"{value:,}" if not prefix else f"{size:.3g}"
            return f"{digits} {prefix}{unit}".rstrip()
        size /= 1000
    raise AssertionError


def shape_text(shape: Shape | None, *, batch: Dim = None) -> str:
    """Write a shape as `16×32×32`; a first dimension equal to `batch` is left out."""
    if shape is None:
        return "?"
    dims = shape[1:] if batch is not None and shape[:1] == (batch,) else shape
    return "×".join("?" if dim is None else printable(str(dim)) for dim in dims) or "scalar"


def attributes_text(attributes: Mapping[str, AttributeValue]) -> str:
    """Write attributes as `3×3 s2 p0,0,1,1`: the usual ones short, the rest by name.

    Values that change nothing, as a stride of 1, are left out.
    """
    parts = []
    for name in (*_SHORT, *sorted(attributes.keys() - _SHORT.keys())):
        if name not in attributes:
            continue
        value = attributes[name]
        if name not in _SHORT:
            parts.append(f"{name}={attribute_text(value)}")
        elif name == "kernel_shape" and isinstance(value, tuple):
            parts.append("×".join(map(str, value)))
        elif not _is_neutral(name, value):
            parts.append(_SHORT[name] + _collapse(value))
    return printable(" ".join(parts))


def attribute_text(value: AttributeValue) -> str:
    """Write one attribute, cut to 16 values or 80 characters."""
    if isinstance(value, tuple):
        shown = ",".join(attribute_text(inner) for inner in value[:16])
        return f"{shown},… ({len(value)} values)" if len(value) > 16 else shown
    if isinstance(value, float):
        return f"{value:.6g}"
    return elide(printable(str(value)), 80)


def type_text(layer: Layer, *, in_quantized: bool = False) -> str:
    """Name a layer's type; `Conv + ReLU` where the output's quantizer stands for a ReLU.

    `MatMul (dynamic)` quantizes what it reads by parameters that it finds at run time.

    `in_quantized`: the network is quantized, so a layer that is not says so.
    """
    text = printable(layer.op_type)
    if any(output.quant and output.quant.folded_relu for output in layer.outputs):
        text += " + ReLU"
    if any(operand.run_time_dtype for operand in layer.inputs):
        text += " (dynamic)"
    if in_quantized and not layer.is_quantized:
        text += " (float)"
    return text


def _is_neutral(name: str, value: AttributeValue) -> bool:
    if name == "group":
        return value == 1
    return isinstance(value, tuple) and all(item == _NEUTRAL[name] for item in value)


def _collapse(value: AttributeValue) -> str:
    """Write equal values once: `2` for 2,2."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(set(value)) == 1:
        return str(value[0])
    return attribute_text(value)
