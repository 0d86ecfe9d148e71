"""Reads the MLPerf Tiny ResNet8 from its Keras HDF5 file. Needs h5py, not TensorFlow."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.zoo.architecture import CLASSES, CONVOLUTIONS, FEATURES, ConvSpec, Weights

Array = NDArray[np.float32]
Reader = Callable[[str, str, tuple[int, ...]], Array]
BATCH_NORM_EPSILON = 1e-3


def read_keras(path: Path) -> Weights:
    """ResNet8's weights, batch norm folded in float64, kernels turned from HWIO to OIHW."""
    import h5py

    if not path.is_file():
        raise BadModelError(f"No file {path}; give the Keras .h5 file of the MLPerf Tiny ResNet8")
    try:
        with h5py.File(path, "r") as file:
            return _read_layers(file.get("model_weights", file), path.name)
    except OSError as error:
        raise BadModelError(
            f"{path.name} is not a readable HDF5 file ({str(error).splitlines()[0]})"
        ) from None


def _read_layers(group: Any, source: str) -> Weights:
    def not_it(why: str) -> BadModelError:
        return BadModelError(f"{source} is not the MLPerf Tiny ResNet8: {why}")

    layers = [name for name in group if hasattr(group[name], "keys") and len(group[name])]

    def numbered(kind: str, count: int) -> list[str]:
        """The layers of a kind in the order they were made, which is what Keras numbers."""
        found = [name for name in layers if re.fullmatch(rf"{kind}(_\d+)?", name)]
        if len(found) != count:
            names = ", ".join(found) or "none"
            raise not_it(f"it has {len(found)} layers named {kind}, expected {count} ({names})")
        return sorted(found, key=lambda name: int(name[len(kind) + 1 :] or 0))

    # The two shortcuts have no batch norm.
    norms = iter(numbered("batch_normalization", len(CONVOLUTIONS) - 2))
    convs = numbered("conv2d", len(CONVOLUTIONS))
    (dense,) = numbered("dense", 1)
    known = re.compile(r"(batch_normalization|conv2d|dense)(_\d+)?")
    if extra := [name for name in layers if not known.fullmatch(name)]:
        raise not_it(f"it has other layers with weights: {', '.join(extra)}")

    def read(layer: str, name: str, shape: tuple[int, ...]) -> Array:
        # Keras nests a layer's arrays under its scope: conv2d/conv2d/kernel:0
        keys: list[str] = []
        group[layer].visit(keys.append)
        key = next((k for k in keys if k.split("/")[-1].removesuffix(":0") == name), None)
        found = group[layer][key] if key else None
        if getattr(found, "shape", None) != shape:
            has = "it is missing" if found is None else f"found {list(getattr(found, 'shape', ()))}"
            raise not_it(f"{layer}/{name} should have shape {list(shape)}, {has}")
        return np.asarray(found, dtype=np.float32)

    weights: dict[str, Array] = {}
    for spec, layer in zip(CONVOLUTIONS, convs, strict=True):
        shape = (spec.kernel, spec.kernel, spec.channels_in, spec.channels_out)
        weight = read(layer, "kernel", shape).transpose(3, 2, 0, 1)
        bias = read(layer, "bias", (spec.channels_out,))
        if not spec.name.endswith("shortcut"):
            weight, bias = _folded(weight, bias, read, next(norms), spec)
        weights[f"{spec.name}.weight"] = np.ascontiguousarray(weight)
        weights[f"{spec.name}.bias"] = bias
    kernel = read(dense, "kernel", (FEATURES, CLASSES))
    weights["head.weight"] = np.ascontiguousarray(kernel.T)
    weights["head.bias"] = read(dense, "bias", (CLASSES,))
    return weights


def _folded(
    weight: Array, bias: Array, read: Reader, layer: str, spec: ConvSpec
) -> tuple[Array, Array]:
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    gamma, beta, mean, variance = (
        read(layer, name, (spec.channels_out,)).astype(np.float64) for name in names
    )
    factor = gamma / np.sqrt(variance + BATCH_NORM_EPSILON)
    folded_weight = weight * factor[:, None, None, None]
    folded_bias = (bias - mean) * factor + beta
    return folded_weight.astype(np.float32), folded_bias.astype(np.float32)
