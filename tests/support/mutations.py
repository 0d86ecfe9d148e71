"""Seeded damage to a model file: in its bytes, and in its meaning."""

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper
from tiny_onnx import constant, model, value, weights

F, U8, I8, I64 = np.float32, np.uint8, np.int8, np.int64
node = helper.make_node


def bases() -> list[bytes]:
    """Small models that between them hold every structure the reader looks at."""
    scales = [constant("s", 0.1, F), constant("z", 3, U8)]
    per_channel = [constant("ws", np.linspace(0.1, 0.2, 4), F), constant("wz", np.zeros(4), I8)]
    weight = constant("w", np.arange(108).reshape(4, 3, 3, 3), I8)
    bias = constant("b", np.arange(4), np.int32)
    qdq = model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
            node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
            node("Conv", ["xd", "wd"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
            node("DequantizeLinear", ["cq", "s", "z"], ["cd"]),
            node("Reshape", ["cd", "to"], ["r"], name="reshape"),
            node("Add", ["r", "r"], ["y"], name="add"),
        ],
        [*scales, *per_channel, weight, constant("to", [0, -1], I64)],
    )
    qoperator = model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node(
                "QLinearConv", ["q", "s", "z", "w", "ws", "wz", "s", "z", "b"], ["c"], name="conv"
            ),
            node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
            node("QLinearAdd", ["p", "s", "z", "p", "s", "z", "s", "z"], ["a"], domain=MS),
            node("QLinearConcat", ["s", "z", *"asz", *"psz"], ["k"], domain=MS, axis=1),
            node("QLinearGlobalAveragePool", ["k", "s", "z", "s", "z"], ["g"], domain=MS),
            node("DequantizeLinear", ["g", "s", "z"], ["y"]),
        ],
        [*scales, *per_channel, weight, bias],
    )
    nbits = model(
        [node("MatMulNBits", ["x", "w", "ws"], ["y"], domain=MS, K=32, N=2, bits=4, block_size=16)],
        [constant("w", np.zeros((2, 2, 8)), U8), constant("ws", np.ones(4), F)],
        inputs=[value("x", ["N", 32])],
    )
    branch = helper.make_graph([node("Relu", ["x"], ["r"])], "inner", [], [value("r", None)])
    control = model(
        [
            node("Constant", [], ["k"], value=constant("", weights(7, 300))),
            node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
            node("MatMul", ["i", "k"], ["m"]),
            node("Clip", ["m", "lo"], ["t"]),
            node("Softmax", ["t"], ["y"]),
        ],
        [constant("lo", 0.0, F)],
        inputs=[value("x", ["N", 3, 5, 7]), value("c", [], onnx.TensorProto.BOOL)],
    )
    return [m.SerializeToString(deterministic=True) for m in (qdq, qoperator, nbits, control)]


MS = "com.microsoft"


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One to four kinds of damage, to the bytes or to the fields."""
    for _ in range(rng.randint(1, 3)):
        hurt = rng.choice(_BYTE_DAMAGE) if rng.random() < 0.25 else _alter
        content = hurt(content, rng)
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) or 1)
    return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) or 1)
    return content[:start] + content[start + rng.randint(1, 40) :]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) or 1)
    part = content[start : start + rng.randint(1, 60)]
    place = rng.randrange(len(content) or 1)
    return content[:place] + part + content[place:]


def _large_number(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) or 1)
    return content[:place] + b"\xff" * rng.randint(1, 9) + b"\x7f" + content[place + 2 :]


_BYTE_DAMAGE: list[Callable[[bytes, random.Random], bytes]] = [_flip, _cut, _repeat, _large_number]


def _alter(content: bytes, rng: random.Random) -> bytes:
    """Still a protobuf, no longer what it said."""
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
        graph = proto.graph
        rng.choice(_FIELD_DAMAGE)(graph, rng)
        return proto.SerializeToString()
    except Exception:  # already damaged beyond that
        return content


def _rename_input(graph: onnx.GraphProto, rng: random.Random) -> None:
    one = rng.choice(graph.node)
    names = [n for other in graph.node for n in (*other.input, *other.output)] + [""]
    one.input[rng.randrange(len(one.input))] = rng.choice(names)


def _rename_output(graph: onnx.GraphProto, rng: random.Random) -> None:
    one = rng.choice(graph.node)
    names = [n for other in graph.node for n in (*other.input, *other.output)] + ["", "new"]
    one.output[rng.randrange(len(one.output))] = rng.choice(names)


def _other_operator(graph: onnx.GraphProto, rng: random.Random) -> None:
    others = [*(other.op_type for other in graph.node), "Gemm", "LSTM", "Identity", "Loop", "QGemm"]
    one = rng.choice(graph.node)
    one.op_type = rng.choice(others)
    one.domain = rng.choice([one.domain, "", MS, "other"])


def _drop_input(graph: onnx.GraphProto, rng: random.Random) -> None:
    one = rng.choice(graph.node)
    del one.input[rng.randrange(len(one.input)) :]


def _drop_output(graph: onnx.GraphProto, rng: random.Random) -> None:
    one = rng.choice(graph.node)
    del one.output[rng.randrange(len(one.output)) :]


def _other_shape(graph: onnx.GraphProto, rng: random.Random) -> None:
    tensor = rng.choice(graph.initializer)
    sizes = [0, 1, 2, 3, 4, -1, 2**31, 2**62, 2**63 - 1]
    if tensor.dims and rng.random() < 0.6:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(sizes)
    else:
        tensor.dims.append(rng.choice(sizes))


def _other_type(graph: onnx.GraphProto, rng: random.Random) -> None:
    rng.choice(graph.initializer).data_type = rng.choice([*range(30), 99])


def _other_data(graph: onnx.GraphProto, rng: random.Random) -> None:
    tensor = rng.choice(graph.initializer)
    extremes = [0.0, -1.0, float("nan"), float("inf"), 1e-45, 3e38]
    count = len(tensor.raw_data) // 4
    tensor.raw_data = np.full(count, rng.choice(extremes), F).tobytes()


def _other_attribute(graph: onnx.GraphProto, rng: random.Random) -> None:
    names = ["axis", "pads", "perm", "block_size", "K", "N", "bits", "output_dtype", "transB"]
    values = [-1, 0, 7, -(2**62), 2**62, [1], [-5, 5], [2**62] * 3, 0.5, "text", [0.5], []]
    one = rng.choice(graph.node)
    if one.attribute and rng.random() < 0.5:
        del one.attribute[rng.randrange(len(one.attribute))]
    attribute = helper.make_attribute(
        rng.choice(names), rng.choice(values), attr_type=None if rng.random() < 0.9 else 2
    )
    one.attribute.append(attribute)


def _other_dimension(graph: onnx.GraphProto, rng: random.Random) -> None:
    dims = rng.choice([*graph.input, *graph.output]).type.tensor_type.shape.dim
    dims[rng.randrange(len(dims))].dim_value = rng.choice([0, -1, 1, 2**20, 2**62])


def _external(graph: onnx.GraphProto, rng: random.Random) -> None:
    tensor = rng.choice(graph.initializer)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    places = ["m.onnx", "../m.onnx", "/etc/passwd", "", ".", "\0", "no", "a" * 5000]
    numbers = ["0", "-1", "4", str(2**70), "x", ""]
    tensor.external_data.add(key="location", value=rng.choice(places))
    tensor.external_data.add(key="offset", value=rng.choice(numbers))
    if rng.random() < 0.5:
        tensor.external_data.add(key="length", value=rng.choice(numbers))
    if rng.random() < 0.5:
        tensor.ClearField("raw_data")


def _shuffle(graph: onnx.GraphProto, rng: random.Random) -> None:
    nodes = [onnx.NodeProto.FromString(one.SerializeToString()) for one in graph.node]
    rng.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)


def _duplicate(graph: onnx.GraphProto, rng: random.Random) -> None:
    if rng.random() < 0.5:
        graph.node.add().CopyFrom(rng.choice(graph.node))
    else:
        graph.initializer.add().CopyFrom(rng.choice(graph.initializer))


_FIELD_DAMAGE: list[Callable[[onnx.GraphProto, random.Random], None]] = [
    _rename_input,
    _rename_output,
    _other_operator,
    _drop_input,
    _drop_output,
    _other_shape,
    _other_type,
    _other_data,
    _other_attribute,
    _other_dimension,
    _external,
    _shuffle,
    _duplicate,
]
