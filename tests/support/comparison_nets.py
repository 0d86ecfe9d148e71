"""A small network with a residual branch, float and quantized, and the same in plain NumPy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tiny_qdq import TinyQdq

Array = np.ndarray[Any, Any]
SHAPE = (3, 5, 7)


@dataclass(frozen=True)
class Layer:
    """Integer weights with their scales (one a channel), and the float weights they stand for."""

    weight: Array
    integers: Array
    scales: Array
    bias: Array

    @property
    def rounded(self) -> Array:
        scales = self.scales.reshape(-1, *[1] * (self.weight.ndim - 1))
        return (self.integers * scales).astype(np.float32)


def layer(rng: np.random.Generator, *shape: int) -> Layer:
    weight = rng.normal(0, 0.4, shape).astype(np.float32)
    scales = (np.abs(weight).reshape(shape[0], -1).max(axis=1) / 20).astype(np.float32)
    integers = np.rint(weight / scales.reshape(-1, *[1] * (len(shape) - 1))).astype(np.int8)
    return Layer(weight, integers, scales, rng.normal(0, 0.2, shape[0]).astype(np.float32))


# Scale, zero-point and type of each activation; those of conv and add are small enough to clip.
QUANTIZERS: dict[str, tuple[float, int, Any]] = {
    "x": (0.03, 120, np.uint8),
    "conv": (0.011, 0, np.uint8),
    "branch": (0.04, 3, np.int8),
    "add": (0.018, 0, np.uint8),
    "pool": (0.012, 0, np.uint8),
    "head": (0.02, 7, np.int8),
}


@dataclass(frozen=True)
class Residual:
    """conv (3x3, ReLU) -> branch (1x1); add (ReLU) of both -> pool -> head."""

    conv: Layer
    branch: Layer
    head: Layer

    def save_float(self, folder: Path, name: str = "float.onnx") -> Path:
        net = TinyQdq(SHAPE)
        for key, part in (("conv", self.conv), ("branch", self.branch), ("head", self.head)):
            net.constant(f"{key}_w", part.weight)
            net.constant(f"{key}_b", part.bias)
        net.node("Conv", ["x", "conv_w", "conv_b"], "conv_pre", pads=[1, 1, 1, 1])
        net.node("Relu", ["conv_pre"], "conv")
        net.node("Conv", ["conv", "branch_w", "branch_b"], "branch")
        net.node("Add", ["conv", "branch"], "add_pre")
        net.node("Relu", ["add_pre"], "add")
        net.node("GlobalAveragePool", ["add"], "pool")
        net.node("Flatten", ["pool"], "flat")
        net.node("Gemm", ["flat", "head_w", "head_b"], "head", transB=1)
        return net.save(folder, "head", name)

    def save_quantized(self, folder: Path, name: str = "quantized.onnx") -> Path:
        net = TinyQdq(SHAPE)
        for key, part in (("conv", self.conv), ("branch", self.branch), ("head", self.head)):
            net.stored(f"{key}_w", part.integers, part.scales)
            net.constant(f"{key}_b", part.bias)
        x = net.quantize("x", *QUANTIZERS["x"])
        net.node("Conv", [x, "conv_w", "conv_b"], "conv", pads=[1, 1, 1, 1])
        conv = net.quantize("conv", *QUANTIZERS["conv"])
        net.node("Conv", [conv, "branch_w", "branch_b"], "branch")
        branch = net.quantize("branch", *QUANTIZERS["branch"])
        net.node("Add", [conv, branch], "add")
        add = net.quantize("add", *QUANTIZERS["add"])
        net.node("GlobalAveragePool", [add], "pool")
        pool = net.quantize("pool", *QUANTIZERS["pool"])
        net.node("Flatten", [pool], "flat")
        net.node("Gemm", ["flat", "head_w", "head_b"], "head", transB=1)
        return net.save(folder, net.quantize("head", *QUANTIZERS["head"]), name)


def residual(seed: int = 5) -> Residual:
    rng = np.random.default_rng(seed)
    return Residual(layer(rng, 4, 3, 3, 3), layer(rng, 4, 4, 1, 1), layer(rng, 3, 4))


def relu(values: Array) -> Array:
    return np.maximum(values, np.float32(0))


def convolve(values: Array, weight: Array, bias: Array) -> Array:
    """Same size as its input; kernels of odd size."""
    reach = weight.shape[2] // 2
    padded = np.pad(values, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]


def fake_quantize(values: Array, name: str) -> Array:
    scale, zero, dtype = QUANTIZERS[name]
    info = np.iinfo(dtype)
    rounded = np.rint(values / np.float32(scale)) + zero
    return ((np.clip(rounded, info.min, info.max) - zero) * np.float32(scale)).astype(np.float32)


def clip(values: Array, name: str) -> Array:
    scale, zero, dtype = QUANTIZERS[name]
    info = np.iinfo(dtype)
    return np.clip(values, (info.min - zero) * scale, (info.max - zero) * scale)


def sqnr(f: Array, q: Array) -> float:
    f, q = f.astype(np.float64), q.astype(np.float64)
    return float(20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q)))
