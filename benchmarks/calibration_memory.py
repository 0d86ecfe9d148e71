"""Measure peak memory of entropy and percentile calibration, ours and plain `quantize_static`'s.

Run it with: python -m benchmarks.calibration_memory
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

METHODS = ("entropy", "percentile")
COUNTS = (128, 512)
HOW = ("quantscope", "quantize_static")


def run() -> None:
    """Print the table. Each number comes from a process of its own."""
    print("Calibration of ResNet8: memory added at the peak, MB")
    print(f"{'method':<12}{'images':>8}" + "".join(f"{how:>18}" for how in HOW))
    for method in METHODS:
        for count in COUNTS:
            peaks = [measure(how, method, count) for how in HOW]
            print(f"{method:<12}{count:>8}" + "".join(f"{peak:>18.1f}" for peak in peaks))


def measure(how: str, method: str, images: int) -> float:
    """Give the MB above what the process held before it began, in a fresh process."""
    command = [sys.executable, __file__, how, method, str(images)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{how} {method} {images} failed: {done.stderr.strip()[-500:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["added_mb"])


def _status_mb(field: str) -> float:
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux: the peak is all that is known
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def _measured(how: str, method: Any, count: int) -> float:
    """Calibrate in this process; give the MB that were added at the peak."""
    import numpy as np
    from onnxruntime.quantization import quantize_static

    from quantscope.data import calibration_set
    from quantscope.model.onnx import load_onnx
    from quantscope.quantize import PtqConfig, quantize_onnx
    from quantscope.quantize.calibration import METHODS as ORT_METHODS
    from quantscope.quantize.onnx_prepare import pre_process, quiet

    images = calibration_set(count)
    with tempfile.TemporaryDirectory() as folder:
        model, output = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        _write_model(model)
        # Once with a few images, so that what is loaded but once is not counted.
        quantize_onnx(model, output, PtqConfig(calibration=method, calibration_images=32))
        prepared = Path(folder) / "prepared.onnx"
        pre_process(load_onnx(model), prepared)
        batches = iter(np.split(images.images, len(images) // 32))

        class Reader:
            def get_next(self) -> dict[str, Any] | None:
                batch = next(batches, None)
                return None if batch is None else {"input": batch.astype(np.float32)}

        before = _status_mb("VmRSS")
        if how == "quantscope":
            config = PtqConfig(calibration=method, calibration_images=count)
            quantize_onnx(model, output, config, calibration=images)
        else:
            with quiet():
                quantize_static(
                    prepared,
                    output,
                    Reader(),
                    per_channel=True,
                    calibrate_method=ORT_METHODS[method],
                )
        return max(_status_mb("VmHWM") - before, 0.0)


def _write_model(path: Path) -> None:
    import numpy as np

    from quantscope.zoo import build_onnx
    from quantscope.zoo.architecture import expected_shapes

    rng = np.random.default_rng(0)  # memory does not depend on what the weights are
    weights = {
        name: rng.normal(0, 0.05, shape).astype(np.float32)
        for name, shape in expected_shapes().items()
    }
    path.write_bytes(build_onnx(weights).SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) == 4:
        added = _measured(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        print(json.dumps({"added_mb": added}))
    else:
        run()
