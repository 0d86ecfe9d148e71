"""The ends that a quantized model's tensors had in its calibration samples."""

from collections.abc import Mapping

from quantscope.data import Samples
from quantscope.model import Model, Pairing
from quantscope.progress import Progress, silent
from quantscope.run import Ends, ends_of_rows
from quantscope.study.calibration import read_extremes


def calibrated_ends(
    original: Model, pairing: Pairing, calibration: Samples, *, progress: Progress = silent
) -> Mapping[str, Ends]:
    """Run the float model on the calibration samples; give the ends by the quantized names."""
    by_name = {name: pair.float_name for name, pair in pairing.by_name.items()}
    found: dict[str, Ends] = {}
    for first, name, (low, high) in read_extremes(
        original.as_onnx("calibration"),
        tuple(by_name.values()),
        calibration,
        what="Looking at the calibration samples",
        progress=progress,
    ):
        ends = ends_of_rows(low, high, first=first)
        if ends is not None:
            found[name] = ends if name not in found else found[name].merge(ends)
    return {name: found[value] for name, value in by_name.items() if value in found}
