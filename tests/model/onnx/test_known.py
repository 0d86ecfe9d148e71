"""What shapes decide is computed as onnxruntime computes it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper
from tiny_onnx import constant, model, saved, value

from quantscope.model.onnx import load_onnx, open_graph
from quantscope.model.onnx.known import known_values

I64 = np.int64
node = helper.make_node
CONSTANTS = [
    constant("zero", 0, I64),
    constant("one", 1, I64),
    constant("two", 2, I64),
    constant("first", [0], I64),
    constant("ones", [1], I64),
    constant("twos", [2], I64),
    constant("threes", [3], I64),
    constant("far", [-1], I64),
    constant("least", [-(2**62)], I64),
    constant("half", 0.5, np.float32),
    constant("minus", -3, I64),
]
NODES = [
    node("Shape", ["x"], ["shape"]),
    node("Shape", ["x"], ["inner"], start=1, end=3),
    node("Gather", ["shape", "two"], ["width"]),
    node("Gather", ["shape", "zero"], ["rows"]),
    node("Unsqueeze", ["width", "first"], ["widths"]),
    node("Squeeze", ["widths"], ["width_again"]),
    node("Div", ["width", "two"], ["halved"]),
    node("Div", ["minus", "two"], ["cut_off"]),
    node("Mul", ["halved", "two"], ["doubled"]),
    node("Sub", ["width", "doubled"], ["rest"]),
    node("Concat", ["inner", "widths"], ["sizes"], axis=0),
    node("Slice", ["sizes", "ones", "threes", "first"], ["cut"]),
    node("Slice", ["sizes", "far", "least", "first", "far"], ["backwards"]),
    node("Cast", ["width"], ["real"], to=onnx.TensorProto.FLOAT),
    node("Sqrt", ["real"], ["root"]),
    node("Pow", ["real", "half"], ["power"]),
    node("Range", ["zero", "width", "one"], ["range"]),
    node("ConstantOfShape", ["widths"], ["filled"]),
    node("Equal", ["range", "two"], ["is_two"]),
    node("Where", ["is_two", "range", "one"], ["chosen"]),
    node("ReduceProd", ["sizes"], ["all"], keepdims=0),
    node("Reshape", ["range", "shaped"], ["table"]),
    node("Transpose", ["table"], ["turned"]),
    node("Expand", ["ones", "widths"], ["spread"]),
    node("Min", ["range", "two"], ["least_of"]),
]


def found(folder: Path) -> tuple[dict[str, Any], onnx.ModelProto]:
    given = [*CONSTANTS, constant("shaped", [1, -1], I64)]
    proto = model([*NODES, node("Identity", ["x"], ["y"])], given, inputs=[value("x", ["N", 3, 7])])
    return known_values(open_graph(load_onnx(saved(proto, folder)))), proto


def test_values_are_those_of_onnxruntime(tmp_path: Path) -> None:
    known, proto = found(tmp_path)
    names = [name for node in NODES for name in node.output]
    assert set(names) - set(known) == {"shape", "rows"}
    asked = sorted(set(names) & set(known))
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in asked)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(asked, {"x": np.zeros((5, 3, 7), np.float32)})
    for name, expected in zip(asked, values, strict=True):
        np.testing.assert_array_equal(known[name], expected, err_msg=name)
        assert known[name].dtype == expected.dtype, name


def test_what_an_open_batch_decides_is_not_known(tmp_path: Path) -> None:
    assert "rows" not in found(tmp_path)[0]
