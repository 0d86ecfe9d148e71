"""ONNX files: damaged in their bytes and in their meaning, and models that want too much."""

import itertools
import json
import os
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from mutations import bases, damaged
from onnx import helper, numpy_helper
from tiny_onnx import constant, model, value

from quantscope.model import bundled_models

node = helper.make_node
F, I8, U8, I32, I64 = np.float32, np.int8, np.uint8, np.int32, np.int64


def onnx_case(seed: int, folder: Path) -> Sequence[object]:
    """One command on one model."""
    rng = random.Random(f"onnx {seed}")
    content, shape, layer = rng.choice(_originals())
    proto = onnx.ModelProto.FromString(content)
    hurts = rng.choice([_bytes, _meaning, _tensors, _tensors, _wishes, _metadata, _external])
    (folder / "m.onnx").write_bytes(hurts(proto, rng, folder))
    images = np.linspace(-1, 1, 4 * int(np.prod(shape)), dtype=F).reshape(4, *shape)
    np.savez(folder / "d.npz", images=images, labels=np.arange(4) % 2)
    data = ("--data", "d.npz", "--images", "2")
    commands: list[Sequence[object]] = [
        ("inspect", "m.onnx"),
        ("inspect", "m.onnx", "--json"),
        ("inspect", "m.onnx", "--raw"),
        ("inspect", "m.onnx", "--residuals"),
        ("inspect", "m.onnx", "--tree"),
        ("inspect", "m.onnx", "--layer", layer),
        ("graph", "m.onnx", "-o", "g.svg"),
        ("graph", "m.onnx", "-o", "g.html", "--raw"),
        ("evaluate", "m.onnx", *data),
        ("evaluate", "m.onnx", *data, "--execution", "both"),
        ("compare", "m.onnx", *data, "--float", "m.onnx"),
        ("compare", "m.onnx", *data),
        ("capture", "m.onnx", "-o", "c.npz", "--data", "d.npz", "--image", "0-1"),
        ("trace", "m.onnx", "--layer", layer, "--at", "0,0,0", "--data", "d.npz"),
        ("accumulators", "m.onnx", *data),
        ("sensitivity", "m.onnx", *data, "--float", "m.onnx"),
        ("whatif", "m.onnx", *data, "--off", "weights", "-o", "w.onnx"),
        ("whatif", "m.onnx", *data, "--off", layer),
        ("quantize", "m.onnx", "-o", "q.onnx", "--calibration-data", "d.npz"),
        # Not a whole study, which takes minutes where the model is good.
        (
            "study",
            "--preset",
            "ptq",
            "--model",
            "m.onnx",
            "--data",
            "d.npz",
            "--out",
            "s",
            "--images",
            "0",
        ),
    ]
    return rng.choice(commands)


@cache
def _originals() -> list[tuple[bytes, tuple[int, ...], str]]:
    """Models, the shape of an image, and a layer of each."""
    small = [(content, (3, 5, 7), "conv") for content in bases()]
    models = [(_gemm(), (6,), "gemm"), (_float(), (3, 5, 7), "conv")]
    whole = [
        (path.read_bytes(), (3, 32, 32), "stack1.conv1")
        for name, path in bundled_models().items()
        if name in ("resnet8", "resnet8-int8", "resnet8-uint8")
    ]
    made = [(m.SerializeToString(), shape, name) for m, shape, name in models]
    return [*small, *small[:2], *made, *made, *whole]


def _gemm() -> onnx.ModelProto:
    """QDQ, with a bias and classes, that runs."""
    return model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
            node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
            node("DequantizeLinear", ["b", "bs", "bz"], ["bd"]),
            node("Gemm", ["xd", "wd", "bd"], ["c"], name="gemm", transB=1),
            node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
            node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
        ],
        [
            constant("s", 0.1, F),
            constant("z", 3, U8),
            constant("w", np.arange(60).reshape(10, 6) - 30, I8),
            constant("ws", 0.02, F),
            constant("wz", 0, I8),
            constant("b", np.arange(10), I32),
            constant("bs", 0.002, F),
            constant("bz", 0, I32),
        ],
        inputs=[value("x", ["N", 6])],
        outputs=[value("y", ["N", 10])],
    )


def _float() -> onnx.ModelProto:
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3))
    return model(
        [
            node("Conv", ["x", "w", "b"], ["c"], name="conv"),
            node("Relu", ["c"], ["r"], name="relu"),
            node("GlobalAveragePool", ["r"], ["p"], name="pool"),
            node("Flatten", ["p"], ["y"], name="flatten"),
        ],
        [constant("w", weights, F), constant("b", np.zeros(4), F)],
        outputs=[value("y", ["N", 4])],
    )


def _bytes(proto: onnx.ModelProto, rng: random.Random, folder: Path) -> bytes:
    content = bytearray(proto.SerializeToString())
    if rng.random() < 0.3:
        return bytes(content[: rng.randrange(len(content))])
    for _ in range(rng.randint(1, 8)):
        content[rng.randrange(min(len(content), 4000))] = rng.randrange(256)
    return bytes(content)


def _meaning(proto: onnx.ModelProto, rng: random.Random, folder: Path) -> bytes:
    return damaged(proto.SerializeToString(), rng)


def _tensors(proto: onnx.ModelProto, rng: random.Random, folder: Path) -> bytes:
    """Constants of other types, shapes and values, whole in themselves."""
    small = [t for t in proto.graph.initializer if np.prod(t.dims) < 100]
    for _ in range(rng.randint(1, 2)):
        tensor = rng.choice(small or list(proto.graph.initializer) or [onnx.TensorProto()])
        array = _other_array(numpy_helper.to_array(tensor) if tensor.name else np.zeros(1), rng)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return proto.SerializeToString()


def _other_array(array: np.ndarray, rng: random.Random) -> np.ndarray:  # noqa: PLR0911
    if array.dtype == object:
        array = np.zeros(array.shape, F)
    match rng.randrange(9):
        case 0:
            return np.array([b"text"] * array.size, object).reshape(array.shape)
        case 1:
            return np.zeros(0, array.dtype)
        case 2:
            return np.resize(array, rng.choice([1, 2, 3, 5, 17]))
        case 3:
            return array.astype(rng.choice([F, np.float16, np.float64, I8, U8, I32, I64, bool]))
        case 4:
            values = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-45, 3.4e38]
            return np.full(array.shape, rng.choice(values), F)
        case 5:
            return array.reshape(1, *array.shape)
        case 6:
            return np.array(array.ravel()[0] if array.size else 0, array.dtype)
        case 7:
            return np.full(array.shape, rng.choice([-128, -1, 0, 127]), I8)
        case _:
            return np.zeros((*array.shape, 0), array.dtype)


def _wishes(proto: onnx.ModelProto, rng: random.Random, folder: Path) -> bytes:
    """Models that are right and want more memory or time than there is."""
    many = [
        _padded, _expanded, _looped, _tiled, _ranged, _doubled, _convolved, _sequence,
    ]  # fmt: skip
    return rng.choice(many)(rng).SerializeToString()


def _after(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> onnx.ModelProto:
    """The nodes take "x" and make "big"; behind them a model that could be quantized."""
    return model(
        [
            *nodes,
            node("GlobalAveragePool", ["big"], ["p"], name="pool"),
            node("Conv", ["p", "w"], ["c"], name="conv"),
            node("Flatten", ["c"], ["y"], name="flatten"),
        ],
        [*constants, constant("w", np.ones((2, 3, 1, 1)), F)],
        inputs=[value("x", ["N", 3, 5, 7])],
        outputs=[value("y", ["N", 2])],
    )


def _padded(rng: random.Random) -> onnx.ModelProto:
    by = rng.choice([10_000, 18_000, 60_000, 2**31, 2**40])
    pads = constant("pads", [0, 0, by, by, 0, 0, 0, 0], I64)
    return _after([node("Pad", ["x", "pads"], ["big"], name="pad")], [pads])


def _expanded(rng: random.Random) -> onnx.ModelProto:
    size = rng.choice([20_000, 60_000, 2**20])
    nodes = [
        node("GlobalAveragePool", ["x"], ["one"]),
        node("Expand", ["one", "shape"], ["big"], name="expand"),
    ]
    return _after(nodes, [constant("shape", [1, 1, size, size], I64)])


def _tiled(rng: random.Random) -> onnx.ModelProto:
    times = rng.choice([2_000, 10_000, 2**31])
    repeats = constant("r", [1, 1, times, times], I64)
    return _after([node("Tile", ["x", "r"], ["big"], name="tile")], [repeats])


def _ranged(rng: random.Random) -> onnx.ModelProto:
    constants = [
        constant("start", 0, I64),
        constant("stop", rng.choice([2**31, 2**40, 2**62]), I64),
        constant("step", 1, I64),
    ]
    nodes = [
        node("Range", ["start", "stop", "step"], ["many"], name="range"),
        node("ReduceMax", ["many"], ["most"], keepdims=0),
        node("Cast", ["most"], ["as_float"], to=1),
        node("Add", ["x", "as_float"], ["big"]),
    ]
    return _after(nodes, constants)


def _doubled(rng: random.Random) -> onnx.ModelProto:
    """Each node makes twice as much as it takes."""
    count = rng.choice([24, 30, 60])
    names = ["x", *(f"d{number}" for number in range(1, count)), "big"]
    nodes = [node("Concat", [one, one], [two], axis=2) for one, two in itertools.pairwise(names)]
    return _after(nodes, [])


def _convolved(rng: random.Random) -> onnx.ModelProto:
    pad = rng.choice([10_000, 2**20, 2**31 - 1, 2**40])
    conv = node("Conv", ["x", "k"], ["big"], name="big", pads=[pad] * 4)
    return _after([conv], [constant("k", np.ones((3, 3, 1, 1)), F)])


def _looped(rng: random.Random) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["w2"])],
        "body",
        [
            value("i", [], onnx.TensorProto.INT64),
            value("go", [], onnx.TensorProto.BOOL),
            value("v", None),
        ],
        [value("on", [], onnx.TensorProto.BOOL), value("w2", None)],
    )
    turns = rng.choice([2**40, 2**62, -1])
    constants = [constant("turns", turns, I64), constant("yes", True, bool)]
    loop = node("Loop", ["turns" if turns > 0 else "", "yes", "x"], ["big"], name="loop", body=body)
    return _after([loop], constants)


def _sequence(rng: random.Random) -> onnx.ModelProto:
    size = rng.choice([2**30, 2**40])
    nodes = [
        node("ConstantOfShape", ["shape"], ["many"], name="many"),
        node("ReduceMax", ["many"], ["most"], keepdims=0),
        node("Add", ["x", "most"], ["big"]),
    ]
    return _after(nodes, [constant("shape", [size], I64)])


def _metadata(proto: onnx.ModelProto, rng: random.Random, folder: Path) -> bytes:
    deep = rng.choice([200, 5_000, 300_000])
    texts = [
        "[" * deep,
        '{"edited":' * deep + "1" + "}" * deep,
        json.dumps({"float_model_digest": rng.choice([1, None, [], {}, "a" * 64, "\ud800"])}),
        '{"label": NaN, "config": 1e999}',
        json.dumps({"label": ["<b>", {"x": "\u202e"}], "config": 7, "calibration": "\x1b[2J"}),
        '{"edited": 1, "edited": 2}',
        "not json",
        "null",
    ]
    entry = next((e for e in proto.metadata_props if e.key == "quantscope.provenance"), None)
    entry = entry or proto.metadata_props.add(key="quantscope.provenance")
    entry.value = rng.choice(texts).encode("utf-8", "replace").decode()
    return proto.SerializeToString()


def _external(proto: onnx.ModelProto, rng: random.Random, folder: Path) -> bytes:
    """Weights in a file beside the model, which is something else."""
    tensor = max(proto.graph.initializer, key=lambda one: len(one.raw_data))
    content = tensor.raw_data
    (folder / "kept").mkdir()
    (folder / "kept" / "w").write_bytes(content)
    place = folder / "w.bin"
    tricks: list[Callable[[], object]] = [
        lambda: os.link(folder / "kept" / "w", place),
        lambda: place.symlink_to(folder / "kept" / "w"),
        lambda: place.symlink_to("/etc/passwd"),
        lambda: os.mkfifo(place),
        lambda: place.symlink_to("/dev/zero"),
        place.mkdir,
        lambda: (place.touch(), os.truncate(place, 8 * 2**30)),
        lambda: place.write_bytes(content[:-1]),
        lambda: (place.write_bytes(content), place.chmod(0)),
        lambda: place.symlink_to(place),
    ]
    rng.choice(tricks)()
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    where = rng.choice(["w.bin", "w.bin", "w.bin", "kept/../w.bin", "w" * 300, "kept/w/x"])
    tensor.external_data.add(key="location", value=where)
    if rng.random() < 0.5:
        tensor.external_data.add(key="length", value=str(len(content)))
    return proto.SerializeToString()
