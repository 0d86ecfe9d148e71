"""A range for values that few samples have: clipping them would pay."""

from collections.abc import Iterator

from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.findings.outliers import outliers
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import SetRange
from quantscope.plain_text import many

KIND = "long-tail"
WHY = (
    "The step is as coarse as the farthest values need, and most samples have none of them: a "
    "range that cuts those off would round all others less."
)
# Where half of the samples need less than that of the range, other ranges are looked into.
_NEEDED = 1 / 3
_USED = 0.5
# The error must have so many times the energy that it would have with the best range: one bit.
_TIMES = 4.0


def suspects(evidence: Evidence) -> tuple[str, ...]:
    """Give the tensors of whose range most samples need little, though some fill it."""
    explained = {each.tensor for each in outliers(evidence)}
    found = []
    for tensor, row in evidence.activations:
        typical = evidence.typical_spans.get(tensor.name)
        # A range that no sample fills is too wide, which is another finding.
        if not typical or tensor.name in explained or (row.used_share_of_range or 0.0) < _USED:
            continue
        low, high = range_of(tensor)
        if typical < _NEEDED * (high - low):
            found.append(tensor.name)
    return tuple(found)


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold each suspect's range against the one with the least error."""
    places: list[Place] = []
    edits: list[SetRange] = []
    for name, found in evidence.best_ranges.items():
        now, best = found.today, found.best
        # A range that clips too much already is another finding.
        if not best.total or now.total < _TIMES * best.total or now.clipping > now.rounding:
            continue
        low, high = range_of(evidence.tensors[name])
        needed = evidence.typical_spans[name] / (high - low)
        places.append(
            Place(
                name,
                f"half of the samples need {needed:.0%} of [{low:.4g}, {high:.4g}] or less; with "
                f"[{best.low:.4g}, {best.high:.4g}] the error of its values, clipping included, "
                f"would have {now.total / best.total:.1f} times less energy",
                {
                    "range": [low, high],
                    "best_range": [best.low, best.high],
                    "times_less_energy": now.total / best.total,
                    "typical_share": needed,
                },
            )
        )
        edits.append(SetRange(name, best.low, best.high))
    if places:
        yield Finding(
            KIND,
            f"Clipping would save more than it costs in {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(
                    f"give {many(len(edits), 'tensor')} the range with the least error",
                    tuple(edits),
                    command="quantscope cure QUANT --best-range -o OUT",
                ),
                Remedy(
                    "quantize with ranges that leave out the farthest 0.1 % (percentile 99.9)",
                    options={"calibration": "percentile", "percentile": 99.9},
                    command="quantscope quantize FLOAT -o OUT --calibration percentile "
                    "--percentile 99.9",
                ),
            ),
            tensors=tuple(place.where for place in places),
        )
