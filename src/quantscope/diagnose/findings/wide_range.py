"""A range much wider than the values that it is for."""

from collections.abc import Iterator
from math import log2

from quantscope.diagnose.evidence import Evidence, range_of
from quantscope.diagnose.findings.branches import small_branches
from quantscope.diagnose.findings.outliers import outliers
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Edit, SetRange
from quantscope.plain_text import many

KIND = "wide-range"
WHY = (
    "Integers that no value ever takes are lost: each halving of the used part of a range costs "
    "one bit of every value."
)
# A symmetric type around values without a sign uses half; below a third, 1.6 bits are lost.
_USED = 1 / 3


def find(evidence: Evidence) -> Iterator[Finding]:
    """Find ranges of which the values use little, not for one outlier's sake."""
    explained = {each.tensor for each in outliers(evidence)} | small_branches(evidence).keys()
    places: list[Place] = []
    edits: list[Edit] = []
    tensors: list[str] = []
    for tensor, row in evidence.activations:
        used, wanted = row.used_share_of_range, evidence.wanted_range(tensor.name)
        if used is None or wanted is None or not 0 < used < _USED or tensor.name in explained:
            continue
        low, high = range_of(tensor)
        if (wanted[1] - wanted[0]) / (high - low) >= _USED:
            continue  # the samples that it was calibrated with do use it
        places.append(
            Place(
                tensor.name,
                f"its values use {used:.1%} of [{low:.4g}, {high:.4g}], which loses "
                f"{log2(1 / used):.1f} of {tensor.params.bits} bits",
                {
                    "used_share_of_range": used,
                    "range": [low, high],
                    "whole_range": list(wanted),
                    "bits_lost": log2(1 / used),
                },
            )
        )
        edits.append(SetRange(tensor.name, *wanted))
        tensors.append(tensor.name)
    if places:
        what = f"narrow {many(len(edits), 'range')} to all values of {evidence.range_source}"
        yield Finding(
            KIND,
            f"The range is too wide in {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (Remedy(what, tuple(edits)),),
            tensors=tuple(tensors),
        )
