"""A range that cuts off more than the finer step brings."""

from collections.abc import Iterator

from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Edit, SetRange
from quantscope.plain_text import many

KIND = "clipping"
WHY = (
    "Values beyond the range all become its end, and that error is larger than what the finer step "
    "saves in rounding."
)
# The energy of the error must be so many times that with the whole range: 6 dB, one bit, so that a
# single value beyond the end makes no finding.
_TIMES = 4.0
# A range that is so close to the whole one was not cut; the samples reach beyond what was known.
_CUT = 1.05


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold the error of each quantizer alone against rounding alone with the whole range."""
    places: list[Place] = []
    edits: list[Edit] = []
    tensors: list[str] = []
    for tensor, row in evidence.activations:
        wanted = evidence.wanted_range(tensor.name)
        now, ideal = row.local_rmse_steps, row.ideal_rmse_steps
        clipped = (row.clipped_low_fraction or 0.0) + (row.clipped_high_fraction or 0.0)
        if wanted is None or now is None or not ideal or not clipped:
            continue
        low, high = range_of(tensor)
        # As many steps over the whole range are coarser by the ratio of the two.
        coarser = (wanted[1] - wanted[0]) / (high - low)
        if coarser <= _CUT or now**2 <= _TIMES * (ideal * coarser) ** 2:
            continue
        places.append(
            Place(
                tensor.name,
                f"{clipped:.2%} of its values lie beyond [{low:.4g}, {high:.4g}]; its error is "
                f"{now:.2f} steps, and would be {ideal * coarser:.2f} of the same steps with "
                f"[{wanted[0]:.4g}, {wanted[1]:.4g}]",
                {
                    "clipped_fraction": clipped,
                    "range": [low, high],
                    "whole_range": list(wanted),
                    "rmse_steps": now,
                    "rmse_steps_with_whole_range": ideal * coarser,
                },
            )
        )
        edits.append(SetRange(tensor.name, *wanted))
        tensors.append(tensor.name)
    if places:
        what = f"widen {many(len(edits), 'range')} to all values of {evidence.range_source}"
        yield Finding(
            KIND,
            f"Clipping costs more than it saves in {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(what, tuple(edits)),
                Remedy(
                    f"give {many(len(edits), 'tensor')} the range with the least error",
                    cure="best range",
                    cure_targets=tuple(tensors),
                    command="quantscope cure QUANT --best-range -o OUT",
                ),
                Remedy(
                    "quantize with ranges that hold all values (minmax)",
                    options={"calibration": "minmax"},
                    command="quantscope quantize FLOAT -o OUT --calibration minmax",
                ),
            ),
            tensors=tuple(tensors),
        )
