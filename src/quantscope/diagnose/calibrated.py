"""The ends that a quantized model's tensors had in its calibration samples."""

from collections.abc import Mapping

from quantscope.data import Samples
from quantscope.diagnose.sample_ends import Ends, ends_of_rows
from quantscope.model import Model, Pairing
from quantscope.progress import Progress, silent
from quantscope.run import open_runnable
from quantscope.run.onnx import ExtremesReader


def calibrated_ends(
    original: Model, pairing: Pairing, calibration: Samples, *, progress: Progress = silent
) -> Mapping[str, Ends]:
    """Run the float model on the calibration samples; give the ends by the quantized names."""
    floats = original.as_onnx("calibration")
    by_name = {name: pair.float_name for name, pair in pairing.by_name.items()}
    reader = ExtremesReader(floats, tuple(by_name.values()))
    intake = open_runnable(floats, execution="reference").intake
    size = intake.default_batch()
    found: dict[str, Ends] = {}
    done = 0
    for batch in intake.batches(calibration, size):
        for name, (low, high) in reader.read(batch.feeds, batch.samples).items():
            ends = ends_of_rows(low, high, first=done)
            if ends is not None:
                found[name] = ends if name not in found else found[name].merge(ends)
        done += batch.samples
        progress("Looking at the calibration samples", done, len(calibration))
    return {name: found[value] for name, value in by_name.items() if value in found}
