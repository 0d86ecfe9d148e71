"""Eight small float networks of the kinds that people bring, and each of them quantized.

Weights are seeded and drawn so that signals keep their size; names are those of PyTorch's exports.
`float_path` and `quantized` write files, `feeds` makes rows for them. Everything is the same on
every call.
"""

import contextlib
import io
import itertools
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

Array = NDArray[Any]
Dims = Sequence[int | str]

FORMS = ("qdq-int8-per-channel", "qdq-uint8", "qoperator", "qdq-a16", "dynamic")
TOKENS, VOCABULARY, WIDTH, HEADS = 10, 50, 16, 2
BYTES = 24
FRAMES, FEATURES, STATE = 6, 20, 12


class _Builder:
    """A graph that grows a node at a time; every method gives the name of the value it makes."""

    def __init__(self, name: str, batch: int | str, *, opset: int, seed: int) -> None:
        self.name, self.batch, self.opset = name, batch, opset
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dims: Dims, kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def constant(self, name: str, values: Any, kind: type = np.float32) -> str:
        if name not in {tensor.name for tensor in self.constants}:
            self.constants.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def drawn(self, name: str, *shape: int, spread: float) -> str:
        return self.constant(name, self.rng.normal(0, spread, shape))

    def node(
        self, op: str, inputs: Sequence[str], name: str, *, outputs: int = 1, **attributes: Any
    ) -> Any:
        made = [f"{name}_output_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def conv(
        self,
        x: str,
        name: str,
        channels: tuple[int, int],
        size: int = 3,
        *,
        stride: int = 1,
        groups: int = 1,
        norm: bool = False,
    ) -> str:
        """Convolve `channels` (in, out), padded; with `norm` a BatchNormalization follows."""
        came, out = channels
        spread = float(np.sqrt(2 / (came // groups * size * size)))
        weight = self.drawn(f"{name}.weight", out, came // groups, size, size, spread=spread)
        inputs = [x, weight]
        if not norm:
            inputs.append(self.drawn(f"{name}.bias", out, spread=0.1))
        x = self.node(
            "Conv",
            inputs,
            f"/{name}/Conv",
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            group=groups,
        )
        if not norm:
            return x
        owner = name.replace("conv", "bn")
        draw = self.rng.uniform
        parts = {
            "weight": draw(0.6, 1.4, out),
            "bias": draw(-0.3, 0.3, out),
            "running_mean": draw(-0.2, 0.2, out),
            "running_var": draw(0.5, 1.5, out),
        }
        names = [self.constant(f"{owner}.{part}", values) for part, values in parts.items()]
        return self.node("BatchNormalization", [x, *names], f"/{owner}/BatchNormalization")

    def linear(self, x: str, name: str, sizes: tuple[int, int], *, gemm: bool = False) -> str:
        """Multiply by a matrix and add a bias: one Gemm, or MatMul and Add as for 3-D values."""
        came, out = sizes
        spread = float(np.sqrt(1 / came))
        bias = self.drawn(f"{name}.bias", out, spread=0.1)
        if gemm:
            weight = self.drawn(f"{name}.weight", out, came, spread=spread)
            return self.node("Gemm", [x, weight, bias], f"/{name}/Gemm", transB=1)
        weight = self.drawn(f"{name}.weight_transposed", came, out, spread=spread)
        x = self.node("MatMul", [x, weight], f"/{name}/MatMul")
        return self.node("Add", [bias, x], f"/{name}/Add")

    def silu(self, x: str, name: str) -> str:
        return self.node("Mul", [x, self.node("Sigmoid", [x], f"/{name}/Sigmoid")], f"/{name}/Mul")

    def reshape(self, x: str, name: str, dims: Sequence[int]) -> str:
        return self.node("Reshape", [x, self.constant(f"{name}.shape", dims, np.int64)], name)

    def finish(self, outputs: dict[str, str]) -> onnx.ModelProto:
        """Name the outputs: `outputs` has each one's value."""
        renamed = {value: name for name, value in outputs.items()}
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, ends, self.constants)
        imports = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
        return model


def _mobile(batch: int | str) -> onnx.ModelProto:
    """Depthwise-separable blocks with HardSwish, one with squeeze-and-excite, one residual."""
    b = _Builder("mobile", batch, opset=17, seed=1)
    x = b.input("image", [batch, 3, 32, 32])
    x = b.conv(x, "features.0.conv", (3, 8), stride=2, norm=True)
    x = b.node("HardSwish", [x], "/features.0/act/HardSwish")
    for block, squeezed, stride in ((1, True, 1), (2, False, 2), (3, True, 1)):
        name, came = f"features.{block}", 8 if block < 3 else 16
        out = 8 if block == 1 else 16
        skip = x
        x = b.conv(x, f"{name}.expand.conv", (came, 2 * came), 1, norm=True)
        x = b.node("HardSwish", [x], f"/{name}/act1/HardSwish")
        wide = 2 * came
        x = b.conv(x, f"{name}.depthwise.conv", (wide, wide), groups=wide, stride=stride, norm=True)
        x = b.node("HardSwish", [x], f"/{name}/act2/HardSwish")
        if squeezed:
            gate = b.node("GlobalAveragePool", [x], f"/{name}/se/avgpool/GlobalAveragePool")
            gate = b.conv(gate, f"{name}.se.fc1", (wide, 4), 1)
            gate = b.node("Relu", [gate], f"/{name}/se/Relu")
            gate = b.conv(gate, f"{name}.se.fc2", (4, wide), 1)
            gate = b.node("HardSigmoid", [gate], f"/{name}/se/HardSigmoid", alpha=1 / 6, beta=0.5)
            x = b.node("Mul", [gate, x], f"/{name}/se/Mul")
        x = b.conv(x, f"{name}.project.conv", (wide, out), 1, norm=True)
        if came == out and stride == 1:
            x = b.node("Add", [x, skip], f"/{name}/Add")
    x = b.conv(x, "head.conv", (16, 24), 1, norm=True)
    x = b.node("HardSwish", [x], "/head/act/HardSwish")
    x = b.node("GlobalAveragePool", [x], "/avgpool/GlobalAveragePool")
    x = b.node("Flatten", [x], "/Flatten")
    return b.finish({"logits": b.linear(x, "classifier", (24, 10), gemm=True)})


def _shuffle(batch: int | str) -> onnx.ModelProto:
    """Split, two branches, Concat and channel shuffle (Reshape, Transpose, Reshape), with Relu6."""
    b = _Builder("shuffle", batch, opset=17, seed=2)
    zero, six = b.constant("zero", 0.0), b.constant("six", 6.0)
    x = b.input("image", [batch, 3, 24, 24])
    x = b.node("Clip", [b.conv(x, "stem.conv", (3, 16), norm=True), zero, six], "/stem/Clip")
    size = 24
    for stage in range(2):
        name = f"stage.{stage}"
        sizes = b.constant(f"{name}.sizes", [8, 8], np.int64)
        left, right = b.node("Split", [x, sizes], f"/{name}/Split", outputs=2, axis=1)
        right = b.conv(right, f"{name}.conv1", (8, 8), 1, norm=True)
        right = b.node("Relu", [right], f"/{name}/Relu")
        right = b.conv(right, f"{name}.conv2", (8, 8), groups=8, norm=True)
        right = b.conv(right, f"{name}.conv3", (8, 8), 1, norm=True)
        right = b.node("Clip", [right, zero, six], f"/{name}/Clip")
        x = b.node("Concat", [left, right], f"/{name}/Concat", axis=1)
        x = b.reshape(x, f"/{name}/Reshape", [-1, 2, 8, size, size])
        x = b.node("Transpose", [x], f"/{name}/Transpose", perm=[0, 2, 1, 3, 4])
        x = b.reshape(x, f"/{name}/Reshape_1", [-1, 16, size, size])
        if stage == 0:
            x = b.node("MaxPool", [x], "/MaxPool", kernel_shape=[2, 2], strides=[2, 2])
            size = 12
    x = b.node("ReduceMean", [x], "/ReduceMean", axes=[2, 3], keepdims=0)
    return b.finish({"logits": b.linear(x, "fc", (16, 10), gemm=True)})


def _detector(batch: int | str) -> onnx.ModelProto:
    """Three scales up and down with Resize and Concat; SiLU is Sigmoid and Mul; no classifier."""
    b = _Builder("detector", batch, opset=17, seed=3)

    def block(x: str, name: str, channels: tuple[int, int], stride: int = 1) -> str:
        return b.silu(b.conv(x, f"{name}.conv", channels, stride=stride, norm=True), f"{name}/act")

    x = b.input("images", [batch, 3, 64, 64])
    x = block(x, "model.0", (3, 8), 2)
    third = block(x, "model.1", (8, 8), 2)
    fourth = block(third, "model.2", (8, 12), 2)
    fifth = block(fourth, "model.3", (12, 16), 2)
    scales = b.constant("scales", [1, 1, 2, 2])
    resize = {"mode": "nearest", "nearest_mode": "floor"}
    resize["coordinate_transformation_mode"] = "asymmetric"
    up = b.node("Resize", [fifth, "", scales], "/model.4/Resize", **resize)
    fourth = b.node("Concat", [up, fourth], "/model.5/Concat", axis=1)
    fourth = block(fourth, "model.6", (28, 12))
    up = b.node("Resize", [fourth, "", scales], "/model.7/Resize", **resize)
    third = block(b.node("Concat", [up, third], "/model.8/Concat", axis=1), "model.9", (20, 8))
    outputs = {}
    levels = ((third, 8, 16), (fourth, 12, 8), (fifth, 16, 4))
    for level, (x, channels, size) in enumerate(levels):
        head = block(x, f"head.{level}.cv", (channels, 8))
        boxes = b.conv(head, f"head.{level}.box", (8, 4), 1)
        scores = b.conv(head, f"head.{level}.cls", (8, 3), 1)
        both = b.node("Concat", [boxes, scores], f"/head.{level}/Concat", axis=1)
        flat = b.reshape(both, f"/head.{level}/Reshape", [-1, 7, size * size])
        outputs[f"scale_{level}"] = b.node(
            "Transpose", [flat], f"/head.{level}/Transpose", perm=[0, 2, 1]
        )
    return b.finish(outputs)


def _unet(batch: int | str) -> onnx.ModelProto:
    """Two levels down and up again, skips by Concat, upsampling by ConvTranspose and by Resize."""
    b = _Builder("unet", batch, opset=17, seed=4)

    def twice(x: str, name: str, channels: tuple[int, int]) -> str:
        for place, sizes in enumerate((channels, (channels[1], channels[1]))):
            x = b.conv(x, f"{name}.conv{place}", sizes, norm=True)
            x = b.node("Relu", [x], f"/{name}/relu{place}/Relu")
        return x

    half = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = b.input("picture", [batch, 1, 24, 32])
    top = twice(x, "down.0", (1, 6))
    middle = twice(b.node("MaxPool", [top], "/down.1/MaxPool", **half), "down.1", (6, 10))
    x = twice(b.node("MaxPool", [middle], "/down.2/MaxPool", **half), "down.2", (10, 14))
    weight = b.drawn("up.1.weight", 14, 10, 2, 2, spread=0.25)
    bias = b.drawn("up.1.bias", 10, spread=0.1)
    x = b.node("ConvTranspose", [x, weight, bias], "/up.1/ConvTranspose", **half)
    x = twice(b.node("Concat", [x, middle], "/up.1/Concat", axis=1), "up.1.body", (20, 10))
    scales = b.constant("scales", [1, 1, 2, 2])
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    x = b.node("Resize", [x, "", scales], "/up.0/Resize", **linear)
    x = twice(b.node("Concat", [x, top], "/up.0/Concat", axis=1), "up.0.body", (16, 6))
    x = b.conv(x, "out.conv", (6, 2), 1)
    return b.finish({"mask": b.node("Sigmoid", [x], "/out/Sigmoid")})


def _encoder(batch: int | str, *, written_out: bool = False) -> onnx.ModelProto:
    """Two layers of attention over three integer inputs, LayerNorm and Gelu, two outputs.

    `written_out` has LayerNormalization and Gelu as the many operators that older exporters write.
    """
    name = "encoder-written-out" if written_out else "encoder"
    b = _Builder(name, batch, opset=14 if written_out else 20, seed=5)

    def norm(x: str, name: str) -> str:
        weight = b.constant(f"{name}.weight", b.rng.uniform(0.7, 1.3, WIDTH))
        bias = b.constant(f"{name}.bias", b.rng.uniform(-0.2, 0.2, WIDTH))
        if not written_out:
            return b.node("LayerNormalization", [x, weight, bias], f"/{name}/LayerNormalization")
        mean = b.node("ReduceMean", [x], f"/{name}/ReduceMean", axes=[-1])
        away = b.node("Sub", [x, mean], f"/{name}/Sub")
        square = b.node("Pow", [away, b.constant("two", 2.0)], f"/{name}/Pow")
        variance = b.node("ReduceMean", [square], f"/{name}/ReduceMean_1", axes=[-1])
        more = b.node("Add", [variance, b.constant("epsilon", 1e-5)], f"/{name}/Add")
        x = b.node("Div", [away, b.node("Sqrt", [more], f"/{name}/Sqrt")], f"/{name}/Div")
        return b.node("Add", [b.node("Mul", [x, weight], f"/{name}/Mul"), bias], f"/{name}/Add_1")

    def gelu(x: str, name: str) -> str:
        if not written_out:
            return b.node("Gelu", [x], f"/{name}/Gelu")
        part = b.node("Div", [x, b.constant("root_two", 2**0.5)], f"/{name}/Div")
        part = b.node("Erf", [part], f"/{name}/Erf")
        part = b.node("Add", [part, b.constant("one", 1.0)], f"/{name}/Add")
        x = b.node("Mul", [x, part], f"/{name}/Mul")
        return b.node("Mul", [x, b.constant("half", 0.5)], f"/{name}/Mul_1")

    ids, mask, kinds = (
        b.input(name, [batch, TOKENS], TensorProto.INT64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    words = b.drawn("embeddings.word.weight", VOCABULARY, WIDTH, spread=0.7)
    types = b.drawn("embeddings.token_type.weight", 2, WIDTH, spread=0.3)
    places = b.drawn("embeddings.position.weight", 1, TOKENS, WIDTH, spread=0.3)
    x = b.node("Gather", [words, ids], "/embeddings/word/Gather")
    more = b.node("Gather", [types, kinds], "/embeddings/token_type/Gather")
    x = b.node("Add", [x, more], "/embeddings/Add")
    x = b.node("Add", [x, places], "/embeddings/Add_1")
    x = norm(x, "embeddings.LayerNorm")
    middle = b.constant("mask.axes", [1, 2], np.int64)
    mask = b.node("Cast", [mask], "/mask/Cast", to=TensorProto.FLOAT)
    mask = b.node("Unsqueeze", [mask, middle], "/mask/Unsqueeze")
    mask = b.node("Sub", [b.constant("mask.one", 1.0), mask], "/mask/Sub")
    mask = b.node("Mul", [mask, b.constant("mask.low", -1e4)], "/mask/Mul")
    for layer in range(2):
        name = f"encoder.layer.{layer}"
        heads = {}
        for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            at = f"{name}.attention.self.{part}"
            y = b.linear(x, at, (WIDTH, WIDTH))
            y = b.reshape(y, f"/{at}/Reshape", [0, TOKENS, HEADS, WIDTH // HEADS])
            heads[part] = b.node("Transpose", [y], f"/{at}/Transpose", perm=perm)
        at = f"{name}/attention/self"
        scores = b.node("MatMul", [heads["query"], heads["key"]], f"/{at}/MatMul")
        root = b.constant("attention.root", (WIDTH / HEADS) ** 0.5)
        scores = b.node("Div", [scores, root], f"/{at}/Div")
        scores = b.node("Add", [scores, mask], f"/{at}/Add")
        scores = b.node("Softmax", [scores], f"/{at}/Softmax", axis=-1)
        y = b.node("MatMul", [scores, heads["value"]], f"/{at}/MatMul_1")
        y = b.node("Transpose", [y], f"/{at}/Transpose", perm=[0, 2, 1, 3])
        y = b.reshape(y, f"/{at}/Reshape", [0, TOKENS, WIDTH])
        y = b.linear(y, f"{name}.attention.output.dense", (WIDTH, WIDTH))
        x = norm(b.node("Add", [y, x], f"/{at}/Add_1"), f"{name}.attention.output.LayerNorm")
        y = gelu(b.linear(x, f"{name}.intermediate.dense", (WIDTH, 32)), f"{name}.act")
        y = b.linear(y, f"{name}.output.dense", (32, WIDTH))
        x = norm(b.node("Add", [y, x], f"/{name}/Add"), f"{name}.output.LayerNorm")
    first = b.node("Gather", [x, b.constant("first", 0, np.int64)], "/pooler/Gather", axis=1)
    pooled = b.node("Tanh", [b.linear(first, "pooler.dense", (WIDTH, WIDTH), gemm=True)], "/Tanh")
    return b.finish({"last_hidden_state": x, "pooler_output": pooled})


def _recurrent(batch: int | str) -> onnx.ModelProto:
    """A GRU between two matrix products; its state comes in and goes out, the batch second."""
    b = _Builder("recurrent", batch, opset=17, seed=6)
    x = b.input("features", [batch, FRAMES, FEATURES])
    state = b.input("state", [1, batch, STATE])
    # Not Relu: onnxruntime's QOperator quantizer drops one behind a Reshape, and its work with it.
    x = b.node("Tanh", [b.linear(x, "encode", (FEATURES, 16))], "/encode/Tanh")
    x = b.node("Transpose", [x], "/Transpose", perm=[1, 0, 2])
    inner, outer = (
        b.drawn(f"gru.weight_{part}", 1, 3 * STATE, size, spread=0.3)
        for part, size in (("ih", 16), ("hh", STATE))
    )
    bias = b.drawn("gru.bias", 1, 6 * STATE, spread=0.1)
    y, kept = b.node(
        "GRU",
        [x, inner, outer, bias, "", state],
        "/gru/GRU",
        outputs=2,
        hidden_size=STATE,
        linear_before_reset=1,
    )
    y = b.node("Squeeze", [y, b.constant("axis", [1], np.int64)], "/Squeeze")
    y = b.node("Transpose", [y], "/Transpose_1", perm=[1, 0, 2])
    y = b.node("Sigmoid", [b.linear(y, "decode", (STATE, 5))], "/decode/Sigmoid")
    return b.finish({"speech": y, "state_out": kept})


def _autoencoder(batch: int | str) -> onnx.ModelProto:
    """Matrix products narrower and wider again, each with BatchNorm folded by hand and ReLU."""
    b = _Builder("autoencoder", batch, opset=17, seed=7)
    x = b.input("spectrum", [batch, 40])
    sizes = (40, 24, 24, 6, 24, 24, 40)
    for place, pair in enumerate(itertools.pairwise(sizes)):
        x = b.linear(x, f"layers.{place}", pair, gemm=place % 2 == 0)
        if place < len(sizes) - 2:
            x = b.node("Relu", [x], f"/layers.{place}/Relu")
    return b.finish({"reconstruction": x})


def _bytes(batch: int | str) -> onnx.ModelProto:
    """Embedded bytes (int32), two convolutions over time, the largest of each channel, classes."""
    b = _Builder("bytes", batch, opset=17, seed=8)
    x = b.input("bytes", [batch, BYTES], TensorProto.INT32)
    table = b.drawn("embedding.weight", 256, 12, spread=0.7)
    x = b.node("Gather", [table, x], "/embedding/Gather")
    x = b.node("Transpose", [x], "/Transpose", perm=[0, 2, 1])
    for place, (came, out) in enumerate(((12, 16), (16, 20))):
        weight = b.drawn(f"conv{place}.weight", out, came, 3, spread=(2 / came / 3) ** 0.5)
        bias = b.drawn(f"conv{place}.bias", out, spread=0.1)
        inputs = [x, weight, bias]
        x = b.node("Conv", inputs, f"/conv{place}/Conv", kernel_shape=[3], pads=[1, 1])
        x = b.node("LeakyRelu", [x], f"/conv{place}/LeakyRelu", alpha=0.1)
    x = b.node("ReduceMax", [x], "/ReduceMax", axes=[2], keepdims=0)
    x = b.linear(x, "classifier", (20, 4), gemm=True)
    return b.finish({"probabilities": b.node("Softmax", [x], "/Softmax", axis=-1)})


_BUILDERS: dict[str, Callable[[int | str], onnx.ModelProto]] = {
    "mobile": _mobile,
    "shuffle": _shuffle,
    "detector": _detector,
    "unet": _unet,
    "encoder": _encoder,
    "recurrent": _recurrent,
    "autoencoder": _autoencoder,
    "bytes": _bytes,
    "encoder-written-out": lambda batch: _encoder(batch, written_out=True),
}
NAMES = tuple(_BUILDERS)[:8]
"""The eight; "encoder-written-out" can be asked for too."""
_BATCH_AXES = {"state": 1}
_ONE_ROW = frozenset({"detector", "recurrent"})


def default_batch(name: str) -> int | str:
    """Give the batch of a network where none is asked for: 1 for some, open ("N") for others."""
    return 1 if name in _ONE_ROW else "N"


@lru_cache
def _float_bytes(name: str, batch: int | str) -> bytes:
    return bytes(_BUILDERS[name](batch).SerializeToString(deterministic=True))


def float_model(name: str, *, batch: int | str | None = None) -> onnx.ModelProto:
    """Build one of `NAMES`; `batch` is a number, or a name for an open one."""
    return onnx.ModelProto.FromString(_float_bytes(name, batch or default_batch(name)))


def float_path(name: str, folder: Path, *, batch: int | str | None = None) -> Path:
    """Write the float network, once a folder."""
    batch = batch or default_batch(name)
    path = folder / f"{name}-{batch}.onnx"
    if not path.exists():
        path.write_bytes(_float_bytes(name, batch))
    return path


def feeds(name: str, rows: int = 1, *, seed: int = 0) -> dict[str, Array]:
    """Make an array for every input, `rows` along its batch axis (1 for "state", else 0)."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for port in float_model(name).graph.input:
        axis = _BATCH_AXES.get(port.name, 0)
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        shape[axis] = rows
        if port.name == "input_ids":
            found[port.name] = rng.integers(0, VOCABULARY, shape)
        elif port.name == "attention_mask":
            found[port.name] = np.ones(shape, np.int64)
        elif port.name == "token_type_ids":
            found[port.name] = np.arange(TOKENS)[None].repeat(rows, 0) // (TOKENS // 2)
        elif port.name == "bytes":
            found[port.name] = rng.integers(0, 256, shape).astype(np.int32)
        else:
            found[port.name] = rng.normal(0, 1, shape).astype(np.float32)
    return found


class _Rows(CalibrationDataReader):
    def __init__(self, name: str, batch: int | str, count: int = 8) -> None:
        rows = batch if isinstance(batch, int) else 2
        self._feeds = iter([feeds(name, rows, seed=100 + each) for each in range(count)])

    def get_next(self) -> dict[str, Array] | None:  # type: ignore[override]
        return next(self._feeds, None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


@lru_cache
def _quantized_bytes(name: str, form: str, batch: int | str) -> bytes:
    with tempfile.TemporaryDirectory() as made, _quiet():
        folder = Path(made)
        source = float_path(name, folder, batch=batch)
        prepared, output = folder / "prepared.onnx", folder / "quantized.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        if form == "dynamic":
            # onnxruntime has no kernel for ConvInteger with int8 weights.
            convolves = any(node.op_type == "Conv" for node in onnx.load(prepared).graph.node)
            kind = QuantType.QUInt8 if convolves else QuantType.QInt8
            quantize_dynamic(prepared, output, weight_type=kind)
            return output.read_bytes()
        activations = {
            "qdq-int8-per-channel": QuantType.QInt8,
            "qdq-uint8": QuantType.QUInt8,
            "qoperator": QuantType.QUInt8,
            "qdq-a16": QuantType.QUInt16,
        }[form]
        quantize_static(
            prepared,
            output,
            _Rows(name, batch),
            quant_format=QuantFormat.QOperator if form == "qoperator" else QuantFormat.QDQ,
            per_channel=form == "qdq-int8-per-channel",
            activation_type=activations,
            weight_type=QuantType.QInt8,
        )
        return output.read_bytes()


def quantized(name: str, form: str, folder: Path, *, batch: int | str | None = None) -> Path:
    """Write the network in one of `FORMS`, as onnxruntime's quantizer makes it, once a folder."""
    batch = batch or default_batch(name)
    path = folder / f"{name}-{form}-{batch}.onnx"
    if not path.exists():
        path.write_bytes(_quantized_bytes(name, form, batch))
    return path
