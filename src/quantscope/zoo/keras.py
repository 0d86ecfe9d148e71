"""Read the MLPerf Tiny ResNet8 from its Keras HDF5 file. Needs h5py, not TensorFlow."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.files import check_file
from quantscope.zoo.architecture import CLASSES, CONVOLUTIONS, FEATURES, ConvSpec, Weights

Array = NDArray[np.float32]
Reader = Callable[[str, str, tuple[int, ...]], Array]
BATCH_NORM_EPSILON = 1e-3
_MOST_BYTES = 64 * 2**20
"""The limit of a file; the real one takes 1.1 MB."""

_MOST_MEMBERS, _DEEPEST, _SHOWN = 1000, 4, 12
_UNREADABLE = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError)
"""The errors that h5py raises for damaged files; it has none of its own."""


def read_keras(path: Path) -> Weights:
    """Read ResNet8's weights; fold batch norm in float64, turn kernels from HWIO to OIHW."""
    import h5py

    wanted = "the Keras .h5 file of the MLPerf Tiny ResNet8"
    check_file(path, wanted, kind=BadModelError, most_bytes=_MOST_BYTES)
    try:
        with h5py.File(path, "r") as file:
            return _read_layers(_child(file, "model_weights") or file, path.name)
    except _UNREADABLE as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadModelError(f"{path.name} is not a readable HDF5 file ({reason})") from None


def _child(group: Any, name: str) -> Any:
    """Give what a group holds under a name; None for nothing, and for what is in other files."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        return None
    return group[name]


def _find(layer: Any, name: str) -> Any:
    """Find the array of this name in a layer: Keras nests it under the layer's scope, as in
    conv2d/conv2d/kernel:0.
    """
    groups, left = [(layer, 0)], _MOST_MEMBERS  # a group may hold itself
    for group, depth in groups:
        for key in itertools.islice(group, left):
            found, left = _child(group, key), left - 1
            if key.removesuffix(":0") == name and hasattr(found, "shape"):
                return found
            if depth < _DEEPEST and hasattr(found, "keys"):
                groups.append((found, depth + 1))
    return None


def _read_layers(group: Any, source: str) -> Weights:
    def not_it(why: str) -> BadModelError:
        return BadModelError(f"{source} is not the MLPerf Tiny ResNet8: {why}")

    members = {name: _child(group, name) for name in itertools.islice(group, _MOST_MEMBERS)}
    layers = {name: m for name, m in members.items() if hasattr(m, "keys") and len(m)}

    def numbered(kind: str, count: int) -> list[str]:
        """List the layers of a kind in the order they were made, which is what Keras numbers."""
        found = [name for name in layers if re.fullmatch(rf"{kind}(_\d{{1,9}})?", name)]
        if len(found) != count:
            names = ", ".join(found[:_SHOWN]) or "none"
            raise not_it(f"it has {len(found)} layers named {kind}, expected {count} ({names})")
        return sorted(found, key=lambda name: int(name[len(kind) + 1 :] or 0))

    # The two shortcuts have no batch norm.
    norms = iter(numbered("batch_normalization", len(CONVOLUTIONS) - 2))
    convs = numbered("conv2d", len(CONVOLUTIONS))
    (dense,) = numbered("dense", 1)
    known = re.compile(r"(batch_normalization|conv2d|dense)(_\d+)?")
    if extra := [name for name in layers if not known.fullmatch(name)]:
        raise not_it(f"it has other layers with weights: {', '.join(extra[:_SHOWN])}")

    def read(layer: str, name: str, shape: tuple[int, ...]) -> Array:
        found = _find(layers[layer], name)
        if found is None or found.shape != shape:
            has = "it is missing" if found is None else f"found {list(found.shape or ())}"
            raise not_it(f"{layer}/{name} should have shape {list(shape)}, {has}")
        if np.prod(found.chunks or (0,), dtype=float) * found.dtype.itemsize > _MOST_BYTES:
            raise not_it(f"{layer}/{name} is stored in chunks of {list(found.chunks)}")
        if found.external or found.is_virtual:
            raise not_it(f"{layer}/{name} is kept in another file, which is not read")
        if found.dtype.kind != "f":
            raise not_it(f"{layer}/{name} is {found.dtype}, not float")
        values = np.asarray(found, dtype=np.float32)
        if not np.isfinite(values).all():
            raise not_it(f"{layer}/{name} has values that are NaN or infinite")
        if name == "moving_variance" and values.min() < 0:
            raise not_it(f"{layer}/{name} is negative ({values.min():.3g})")
        return values

    weights: dict[str, Array] = {}
    for spec, layer in zip(CONVOLUTIONS, convs, strict=True):
        shape = (spec.kernel, spec.kernel, spec.channels_in, spec.channels_out)
        weight = read(layer, "kernel", shape).transpose(3, 2, 0, 1)
        bias = read(layer, "bias", (spec.channels_out,))
        if not spec.name.endswith("shortcut"):
            weight, bias = _fold(weight, bias, read, next(norms), spec)
        weights[f"{spec.name}.weight"] = np.ascontiguousarray(weight)
        weights[f"{spec.name}.bias"] = bias
    kernel = read(dense, "kernel", (FEATURES, CLASSES))
    weights["head.weight"] = np.ascontiguousarray(kernel.T)
    weights["head.bias"] = read(dense, "bias", (CLASSES,))
    for name, values in weights.items():
        if not np.isfinite(values).all():
            raise not_it(f"with its batch norm folded in, {name} is infinite")
    return weights


def _fold(
    weight: Array, bias: Array, read: Reader, layer: str, spec: ConvSpec
) -> tuple[Array, Array]:
    """Fold a batch norm into the convolution before it."""
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    gamma, beta, mean, variance = (
        read(layer, name, (spec.channels_out,)).astype(np.float64) for name in names
    )
    factor = gamma / np.sqrt(variance + BATCH_NORM_EPSILON)
    folded_weight = weight * factor[:, None, None, None]
    folded_bias = (bias - mean) * factor + beta
    with np.errstate(over="ignore"):  # which is looked for when all is read
        return folded_weight.astype(np.float32), folded_bias.astype(np.float32)
