"""Damaged models are read or refused in one line; nothing else happens."""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from mutations import bases, damaged
from onnx import helper
from tiny_onnx import constant, conv_relu, model, value

from quantscope.errors import BadModelError
from quantscope.model import read_onnx, residuals


def outcome(content: bytes, path: Path) -> str:
    """ "read" or "refused"; any other exception is the test's failure."""
    path.write_bytes(content)
    try:
        network = read_onnx(path)
    except BadModelError as error:
        return "refused" if "\n" not in str(error) else "refused in several lines"
    json.dumps(network.to_dict(full=True), allow_nan=False)
    residuals(network)
    for tensor in network.tensors:
        if tensor.has_data:
            assert tensor.integers() is not None
    return "read"


def fuzz(path: Path, seeds: range) -> Counter[str]:
    originals = bases()
    seen: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        content = damaged(rng.choice(originals), rng)
        try:
            seen[outcome(content, path)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed} broke the reader") from error
    return seen


def test_the_undamaged_models_are_read(tmp_path: Path) -> None:
    assert [outcome(content, tmp_path / "m.onnx") for content in bases()] == ["read"] * 4


def test_a_hundred_damaged_models(tmp_path: Path) -> None:
    seen = fuzz(tmp_path / "m.onnx", range(100))
    assert seen["read"] > 5
    assert seen["refused"] > 50
    assert seen.total() == seen["read"] + seen["refused"]


@pytest.mark.slow
def test_thousands_of_damaged_models(tmp_path: Path) -> None:
    seen = fuzz(tmp_path / "m.onnx", range(100, 5100))
    assert min(seen["read"], seen["refused"]) > 250
    assert seen.total() == seen["read"] + seen["refused"]


# What broke the reader once.

F, U8 = np.float32, np.uint8


def external(location: bytes) -> bytes:
    proto = conv_relu()
    weight = proto.graph.initializer[0]
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="HERE" + "." * (len(location) - 4))
    return proto.SerializeToString().replace(b"HERE" + b"." * (len(location) - 4), location)


def clip_with_many_limits() -> bytes:
    node = helper.make_node("Clip", ["x", "lo"], ["y"])
    return model([node], [constant("lo", [0.0, -1.0], F)]).SerializeToString()


def packed_weight(kind: type = U8, **other: object) -> bytes:
    sizes = {"K": 32, "N": 2, "bits": 4, "block_size": 16} | other
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    stored = [constant("w", np.zeros(32 // np.dtype(kind).itemsize), kind)]
    stored.append(constant("s", np.ones(4), F))
    return model([node], stored, inputs=[value("x", ["N", 32])]).SerializeToString()


def scale_of_six_bits() -> bytes:
    scale = onnx.TensorProto(name="s", data_type=27, raw_data=b"\xff")
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"])
    return model([node], [scale]).SerializeToString()


def only_quantizers() -> bytes:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    return model(nodes, [constant("s", 0.5, F)]).SerializeToString()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (external(b"a" * 5000), "refused"),
        (external(b"\xff\xfe\xfd\xfc"), "refused"),
        (external(b"a\0b/"), "refused"),
        (clip_with_many_limits(), "read"),
        (packed_weight(F), "read"),
        (packed_weight(K=[1, 2]), "refused"),
        (packed_weight(N=-3), "refused"),
        (scale_of_six_bits(), "refused"),
        (only_quantizers(), "read"),
    ],
)
def test_what_broke_it_once_no_longer_does(content: bytes, expected: str, tmp_path: Path) -> None:
    assert outcome(content, tmp_path / "m.onnx") == expected
