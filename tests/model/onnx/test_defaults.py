"""Attributes that say nothing are told apart by the operators' own schemas, in the file's opset."""

from pathlib import Path

import pytest
from onnx import helper
from tiny_onnx import constant, model, saved, weights

from quantscope.model import read_onnx
from quantscope.report.wording import attributes_text

node = helper.make_node


def test_defaults_are_not_shown_and_all_else_is(tmp_path: Path) -> None:
    conv = node(
        "Conv", ["x", "w"], ["c"], auto_pad="NOTSET", group=1, strides=[1, 1], pads=[1, 1, 1, 1]
    )
    leaky = node("LeakyRelu", ["c"], ["y"], alpha=0.01)
    path = saved(model([conv, leaky], [constant("w", weights(4, 3, 3, 3))]), tmp_path)
    first, second = read_onnx(path).layers
    assert set(first.attributes) == {"auto_pad", "group", "strides", "pads"}
    assert first.default_attributes == {"auto_pad", "group"}
    assert attributes_text(first.telling_attributes) == "p1"
    assert second.telling_attributes == {}


@pytest.mark.parametrize(("opset", "axis", "is_default"), [(11, 1, True), (13, 1, False)])
def test_a_default_is_that_of_the_files_opset(
    opset: int, axis: int, is_default: bool, tmp_path: Path
) -> None:
    softmax = node("Softmax", ["x"], ["y"], axis=axis)
    (layer,) = read_onnx(saved(model([softmax], opset=opset), tmp_path)).layers
    assert ("axis" in layer.default_attributes) == is_default


def test_an_operator_of_onnxruntimes_own_has_the_float_ones_defaults(tmp_path: Path) -> None:
    names = ["q", "s", "z", "s", "z"]
    leaky = node("QLinearLeakyRelu", names, ["o"], domain="com.microsoft", alpha=0.01)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        leaky,
        node("DequantizeLinear", ["o", "s", "z"], ["y"]),
    ]
    stored = [helper.make_tensor("s", 1, [], [0.1]), helper.make_tensor("z", 2, [], [0])]
    (layer,) = read_onnx(saved(model(nodes, stored), tmp_path)).layers
    assert layer.telling_attributes == {}
