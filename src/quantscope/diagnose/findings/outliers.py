"""A range that one sample set, far beyond all others."""

from collections.abc import Iterator
from dataclasses import dataclass

from quantscope.data import Samples
from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetRange
from quantscope.plain_text import many
from quantscope.run import End

KIND = "outlier-range"
WHY = (
    "One sample stretched the range, and with it the step that the values of all other samples "
    "are rounded to."
)
# The sample must widen the range so many times.
_TIMES = 1.75
# An end is set by a sample if it lies within this share of the range of it.
_NEAR = 0.1


@dataclass(frozen=True)
class Outlier:
    """A tensor whose range one sample set: its end, and the range without that sample."""

    tensor: str
    end: End
    which: str
    source: Samples
    without: tuple[float, float]
    times: float


def outliers(evidence: Evidence) -> tuple[Outlier, ...]:
    """Find them in the calibration samples where these are known, else in those at hand."""
    source = evidence.calibration or evidence.samples
    known = evidence.calibration_ends or evidence.ends
    found = []
    for tensor, _ in evidence.activations:
        ends = known.get(tensor.name)
        if ends is None:
            continue
        low, high = range_of(tensor)
        near = _NEAR * (high - low)
        for which, end, own in (("low", ends.low, low), ("high", ends.high, high)):
            if end.without is None or end.sample is None or abs(end.value - own) > near:
                continue
            rest = {"low": ends.low.value, "high": ends.high.value, which: end.without}
            without = min(rest["low"], 0.0), max(rest["high"], 0.0)
            whole = max(ends.high.value, 0.0) - min(ends.low.value, 0.0)
            if without[1] > without[0] and whole >= _TIMES * (without[1] - without[0]):
                times = whole / (without[1] - without[0])
                found.append(Outlier(tensor.name, end, which, source, without, times))
    return tuple(found)


def find(evidence: Evidence) -> Iterator[Finding]:
    """Tell of all tensors whose range one sample set."""
    found = outliers(evidence)
    if not found:
        return
    places = []
    for each in found:
        assert each.end.sample is not None
        sample = each.source.name_of(each.end.sample)
        channel = "" if each.end.channel is None else f", in channel {each.end.channel}"
        places.append(
            Place(
                each.tensor,
                f"sample {sample} of {each.source.name} set the {each.which} end, "
                f"{each.end.value:.4g}{channel}; all others stay within [{each.without[0]:.4g}, "
                f"{each.without[1]:.4g}], {each.times:.1f} times narrower",
                {
                    "sample": sample,
                    "end": each.which,
                    "value": each.end.value,
                    "channel": each.end.channel,
                    "range_without": list(each.without),
                    "times_wider": each.times,
                },
            )
        )
    ranges = {each.tensor: each.without for each in found}
    what = f"set {many(len(ranges), 'range')} as if that sample were not there"
    yield Finding(
        KIND,
        f"One sample set the range of {many(len(ranges), 'tensor')}",
        WHY,
        tuple(places),
        (
            Remedy(what, tuple(SetRange(name, *ends) for name, ends in ranges.items())),
            Remedy(
                f"give {many(len(ranges), 'tensor')} the range with the least error",
                cure="best range",
                cure_targets=tuple(ranges),
                command="quantscope cure QUANT --best-range -o OUT",
            ),
            Remedy(
                "quantize with ranges that leave out the farthest 0.1 % (percentile 99.9)",
                options={"calibration": "percentile", "percentile": 99.9},
                command="quantscope quantize FLOAT -o OUT --calibration percentile "
                "--percentile 99.9",
            ),
        ),
        tensors=tuple(ranges),
    )
