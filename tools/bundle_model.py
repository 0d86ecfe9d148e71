"""Make the package's ResNet8 files from trained weights.

    python tools/bundle_model.py runs/resnet8/resnet8.safetensors

Writes `resnet8.safetensors`, `resnet8.onnx` and two quantized versions into the package and prints
their digests and their accuracy on all 10,000 test images, which must be at hand
(`quantscope data fetch`). Afterwards run tools/render_docs.py.
"""

import argparse
from pathlib import Path

from quantscope.data import load_full
from quantscope.model import bundled_models
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run import evaluate
from quantscope.zoo import read_safetensors, write_onnx, write_safetensors

QUANTIZED = {
    "resnet8-int8": PtqConfig(activations="int8"),
    "resnet8-uint8": PtqConfig(activations="uint8"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    weights = read_safetensors(parser.parse_args().weights)
    test = load_full("test")
    files = bundled_models()
    files["resnet8"].parent.mkdir(exist_ok=True)
    digests = {
        "resnet8-torch": write_safetensors(weights, files["resnet8-torch"]),
        "resnet8": write_onnx(weights, files["resnet8"]),
    }
    for name, config in QUANTIZED.items():
        digests[name] = quantize_onnx(files["resnet8"], files[name], config).digest
    for name, digest in digests.items():
        print(f"{files[name].name}  sha256 {digest}")
        executions = ("reference", "runtime") if name in QUANTIZED else (None,)
        for execution in executions:
            result = evaluate(name, test, execution=execution)
            low, high = result.interval_95
            print(
                f"  {result.execution}: {result.correct:,} of {result.images:,}, "
                f"[{low:.2%}, {high:.2%}], loss {result.loss:.4f}"
            )


if __name__ == "__main__":
    main()
