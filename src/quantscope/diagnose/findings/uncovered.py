"""Data that reach beyond what calibration saw."""

from collections.abc import Iterator

from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.findings.preprocessing import mismatches
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Edit, SetRange
from quantscope.plain_text import many

KIND = "uncovered-data"
WHY = (
    "The calibration samples never showed such values, so the range ends before them and they all "
    "become its end."
)
# Beyond what calibration saw by half, with one sample left out on each side.
_WIDER = 1.5
# The error must have so many times the energy that it would have with the whole range.
_TIMES = 4.0


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold the ends of these samples' values against those of the calibration samples."""
    known = evidence.calibration_ends
    if known is None or any(True for _ in mismatches(evidence)):
        return
    places: list[Place] = []
    edits: list[Edit] = []
    for tensor, row in evidence.activations:
        seen, ends = known.get(tensor.name), evidence.ends.get(tensor.name)
        if seen is None or ends is None or ends.low.without is None or ends.high.without is None:
            continue
        low, high = range_of(tensor)
        reach = min(ends.low.without, 0.0), max(ends.high.without, 0.0)
        before = max(seen.high.value, 0.0) - min(seen.low.value, 0.0)
        coarser = (reach[1] - reach[0]) / (high - low)
        if before <= 0 or coarser < _WIDER or reach[1] - reach[0] < _WIDER * before:
            continue
        now, ideal = row.local_rmse_steps, row.ideal_rmse_steps
        if now is None or not ideal or now**2 <= _TIMES * (ideal * coarser) ** 2:
            continue
        beyond = (row.clipped_low_fraction or 0.0) + (row.clipped_high_fraction or 0.0)
        whole = min(ends.low.value, 0.0), max(ends.high.value, 0.0)
        places.append(
            Place(
                tensor.name,
                f"{beyond:.2%} of its values lie beyond [{low:.4g}, {high:.4g}], up to "
                f"[{whole[0]:.4g}, {whole[1]:.4g}]; calibration saw [{seen.low.value:.4g}, "
                f"{seen.high.value:.4g}]",
                {
                    "clipped_fraction": beyond,
                    "range": [low, high],
                    "data": list(whole),
                    "calibration": [seen.low.value, seen.high.value],
                },
            )
        )
        edits.append(SetRange(tensor.name, *whole))
    if places:
        yield Finding(
            KIND,
            f"The calibration samples do not cover these in {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(
                    f"widen {many(len(edits), 'range')} to all values of these samples (better: "
                    f"calibrate with samples like them)",
                    tuple(edits),
                ),
            ),
            tensors=tuple(place.where for place in places),
        )
