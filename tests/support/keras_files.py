"""Keras files of ResNet8 with random weights, laid out as Keras saves them."""

from pathlib import Path

import h5py
import numpy as np

from quantscope.zoo.architecture import CLASSES, CONVOLUTIONS, FEATURES


def write_keras(path: Path) -> Path:
    """Write a file that `read_keras` accepts."""
    rng = np.random.default_rng(0)

    def put(layer: str, name: str, *shape: int) -> None:
        values = (
            rng.uniform(0.5, 1.5, shape) if name == "moving_variance" else rng.normal(size=shape)
        )
        file[f"model_weights/{layer}/{layer}/{name}:0"] = values.astype(np.float32)

    with h5py.File(path, "w") as file:
        norms = 0
        for number, spec in enumerate(CONVOLUTIONS):
            conv = f"conv2d_{number}" if number else "conv2d"
            put(conv, "kernel", spec.kernel, spec.kernel, spec.channels_in, spec.channels_out)
            put(conv, "bias", spec.channels_out)
            if spec.name.endswith("shortcut"):
                continue
            norm = f"batch_normalization_{norms}" if norms else "batch_normalization"
            norms += 1
            for name in ("gamma", "beta", "moving_mean", "moving_variance"):
                put(norm, name, spec.channels_out)
        put("dense", "kernel", FEATURES, CLASSES)
        put("dense", "bias", CLASSES)
    return path
