"""Write scores and their differences: `88.9 %`, `31.2 dB`, `−0.2 [−0.7, +0.3]`."""

from math import isnan

from quantscope.plain_text import printable
from quantscope.report import format_signed, number
from quantscope.run import EvaluationDelta, Score

_NO_BREAK = "\N{NO-BREAK SPACE}"


def score_text(score: Score) -> str:
    """Write a score with its unit: `88.9 %`, `31.2 dB`, `0.0123 pixels`."""
    if isnan(score.value):
        return "–"
    if score.unit == "share":
        return percent(score.value, score.samples)
    return value_text(score.value, score.unit)


def value_text(value: float, unit: str) -> str:
    """Write one number with its unit."""
    digits = f"{value:.1f}" if unit == "dB" else number(value)
    return f"{digits} {printable(unit)}".strip().replace("-", "−")


def ends_text(score: Score) -> str:
    """Write the interval of a score, `[86.8, 90.7]`; empty where there is none."""
    ends = score.interval_95
    if ends is None:
        return ""
    low, high = (_in_unit(end, score) for end in ends)
    return f"[{low}, {high}]".replace("-", "−").replace(" ", _NO_BREAK)


def _in_unit(value: float, score: Score) -> str:
    if score.unit == "share":
        return f"{100 * value:.{1 if score.samples <= 1000 else 2}f}"
    return f"{value:.1f}" if score.unit == "dB" else number(value)


def delta_text(delta: EvaluationDelta) -> str:
    """Write a difference with its interval, in points where it is one of shares."""
    scores = delta.scores
    if scores.first.unit == "share":
        return points(delta.delta, delta.interval_95, delta.first.images)
    if isnan(scores.delta):
        return "–"
    form = "+.1f" if scores.first.unit == "dB" else "+.3g"
    text = format_signed(scores.delta, form)
    if scores.interval_95 is not None:
        low, high = (format_signed(end, form) for end in scores.interval_95)
        text += f" [{low}, {high}]"
    return text.replace(" ", _NO_BREAK)


def percent(accuracy: float, images: int) -> str:
    """Write one digit for a thousand images, two where the sample supports them."""
    return f"{100 * accuracy:.{1 if images <= 1000 else 2}f} %"


def points(delta: float, interval: tuple[float, float], images: int) -> str:
    """Write `−0.2 [−0.7, +0.3]`, in points; no line breaks within it."""
    form = "+.1f" if images <= 1000 else "+.2f"
    low, high = (format_signed(100 * end, form) for end in interval)
    return f"{format_signed(100 * delta, form)} [{low}, {high}]".replace(" ", _NO_BREAK)
