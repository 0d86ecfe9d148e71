"""Run AIMET's per-layer analysis of a float ONNX classifier, the sensitivity benchmark's peer.

It runs in an environment of its own, because aimet-onnx brings its own versions of everything:

    python -m venv AIMET && AIMET/bin/pip install aimet-onnx
    QUANTSCOPE_AIMET_PYTHON=AIMET/bin/python python -m benchmarks sensitivity

Nothing of quantscope is imported here. It prints one JSON object as its last line.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PYTHON_VARIABLE = "QUANTSCOPE_AIMET_PYTHON"
HOW_TO_SET_UP = (
    "python -m venv AIMET && AIMET/bin/pip install aimet-onnx, "
    f"then set {PYTHON_VARIABLE}=AIMET/bin/python"
)


def analyse(model: str, arrays: str, *, batch: int) -> dict[str, Any]:
    """Time AIMET's QuantAnalyzer, and give what it found.

    `arrays` is an .npz with images and labels, and calibration images, as the model takes them.
    `seconds` is the disable-one analysis alone, from a calibrated simulation whose session is open;
    loading and calibration are counted apart.
    """
    import numpy as np
    import onnx
    import onnxruntime as ort
    from aimet_onnx import __version__ as version
    from aimet_onnx.quant_analyzer import QuantAnalyzer
    from aimet_onnx.quantsim import QuantizationSimModel

    given = np.load(arrays)
    images, labels, calibration = given["images"], given["labels"], given["calibration"]

    def scores(session: ort.InferenceSession, pixels: Any) -> Any:
        name = session.get_inputs()[0].name
        parts = (pixels[at : at + batch] for at in range(0, len(pixels), batch))
        return np.concatenate([session.run(None, {name: part})[0] for part in parts])

    def accuracy(session: ort.InferenceSession) -> float:
        return float((scores(session, images).argmax(axis=1) == labels).mean())

    began = time.perf_counter()
    simulation = QuantizationSimModel(onnx.load(model), param_type="int8", activation_type="int8")
    simulation.compute_encodings(lambda session: scores(session, calibration))
    prepared = time.perf_counter()
    quantized = accuracy(simulation.session)
    analyzer = QuantAnalyzer(simulation.model, {}, accuracy, accuracy)
    started, cpu_started = time.perf_counter(), time.process_time()
    layers = analyzer.perform_per_layer_analysis_by_disabling_quantizers(simulation)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "preparation_seconds": prepared - began,
        "images": len(images),
        "batch": batch,
        "quantized_accuracy": quantized,
        "rows": len(layers),
        "accuracy_without": layers,
        "aimet_onnx": version,
        "onnxruntime": ort.__version__,
    }


def main() -> None:
    model, arrays, batch = sys.argv[1:4]
    # AIMET draws progress bars and logs on stdout; the result is on a line of its own.
    result = json.dumps(analyse(str(Path(model)), arrays, batch=int(batch)))
    sys.stdout.flush()
    os.write(1, f"\n{result}\n".encode())


if __name__ == "__main__":
    main()
