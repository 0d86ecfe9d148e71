"""Make the package's ResNet8 files from trained weights.

    python tools/bundle_model.py runs/resnet8/resnet8.safetensors

Writes `resnet8.safetensors` and `resnet8.onnx` into the package and prints their digests and, where
the full data set is at hand, their accuracy on all 10,000 test images.
"""

import argparse
from pathlib import Path

from quantscope.data import load_full
from quantscope.run import evaluate
from quantscope.zoo import bundled_models, read_safetensors, write_onnx, write_safetensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    weights = read_safetensors(parser.parse_args().weights)
    files = bundled_models()
    files["resnet8"].parent.mkdir(exist_ok=True)
    print("resnet8.safetensors", write_safetensors(weights, files["resnet8-torch"]))
    print("resnet8.onnx       ", write_onnx(weights, files["resnet8"]))
    test = load_full("test")
    for name in ("resnet8", "resnet8-torch"):
        result = evaluate(name, test)
        print(f"{name}: {result.correct:,} of {result.images:,}, loss {result.loss:.4f}")


if __name__ == "__main__":
    main()
