"""Layers are named after the modules that own their weights, whatever made of their nodes."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tiny_onnx import constant, model, saved, value, weights
from torch import nn

from quantscope.model import Network, read_onnx
from small_networks import FORMS, NAMES, float_path, quantized

node = helper.make_node


class Block(nn.Module):
    """Convolution and norm, a residual, and a ReLU that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + x)  # type: ignore[no-any-return]


class Net(nn.Module):
    """A little ResNet, with a head of tokens through one linear layer without its transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(Block(), Block())
        self.query = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(self.bn1(self.conv1(x)))
        return self.query(x.flatten(2).transpose(1, 2))  # type: ignore[no-any-return]


def exported(path: Path, *, dynamo: bool) -> Path:
    torch.manual_seed(0)
    net = Net().eval()
    for each in net.modules():
        if isinstance(each, nn.BatchNorm2d):
            nn.init.uniform_(each.running_var, 0.5, 1.5)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = (torch.randn(2, 3, 8, 8),)
        if dynamo:
            torch.onnx.export(net, given, path, dynamo=True, verbose=False)
        else:
            torch.onnx.export(net, given, path, dynamo=False, opset_version=17)
    return path


def weighted(network: Network) -> list[str]:
    kinds = ("Conv", "MatMul", "Gemm")
    return [layer.name for layer in network.layers if layer.op_type in kinds]


OWNERS = ["conv1", *(f"layer1.{i}.conv{j}" for i in (0, 1) for j in (1, 2)), "query"]


@pytest.mark.parametrize("dynamo", [True, False])
def test_both_exporters_of_pytorch_give_the_modules_names(dynamo: bool, tmp_path: Path) -> None:
    path = exported(tmp_path / "net.onnx", dynamo=dynamo)
    network = read_onnx(path)
    assert weighted(network) == OWNERS
    names = [layer.name for layer in network.layers]
    assert {"layer1.0.relu", "query.Add"} < set(names)
    assert len(set(names)) == len(names)
    made = tmp_path / "dynamic.onnx"
    proto = onnx.load(path)
    del proto.graph.value_info[:]
    quantize_dynamic(proto, made, weight_type=QuantType.QUInt8)
    assert weighted(read_onnx(made)) == OWNERS


def convolution(names: tuple[str, str], folder: Path, *, weight: str) -> Network:
    nodes = [
        node("Conv", ["x", weight], ["a"], name=names[0]),
        node("Conv", ["a", "w2"], ["y"], name=names[1]),
    ]
    stored = [constant(weight, weights(3, 3, 1, 1)), constant("w2", weights(3, 3, 1, 1))]
    return read_onnx(saved(model(nodes, stored), folder))


@pytest.mark.parametrize(
    ("weight", "name"),
    [
        ("backbone.conv1.weight", "backbone.conv1"),
        ("module.stem.weight", "stem"),
        ("conv2d_12.w_0", "conv2d_12"),
        ("model/dense_1/kernel", "model.dense_1"),
        ("onnx::Conv_45", "Conv_0"),
        ("511", "Conv_0"),
    ],
)
def test_a_weight_that_is_named_after_its_module_names_the_layer(
    weight: str, name: str, tmp_path: Path
) -> None:
    network = convolution(("Conv_0", ""), tmp_path, weight=weight)
    assert [layer.name for layer in network.layers] == [name, "conv_1"]


def test_a_weight_of_two_layers_names_neither(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "shared.weight"], ["a"], name="first"),
        node("Conv", ["a", "shared.weight"], ["y"], name="second"),
    ]
    stored = [constant("shared.weight", weights(3, 3, 1, 1))]
    network = read_onnx(saved(model(nodes, stored), tmp_path))
    assert [layer.name for layer in network.layers] == ["first", "second"]


def test_a_node_without_a_name_has_that_of_its_result(tmp_path: Path) -> None:
    nodes = [
        node("Sigmoid", ["x"], ["/act/Mul_output_0"]),
        node("Relu", ["/act/Mul_output_0"], ["y"]),
    ]
    network = read_onnx(saved(model(nodes), tmp_path))
    assert [layer.name for layer in network.layers] == ["act.Mul", "relu_1"]


def test_quantizers_between_a_weight_and_its_layer_are_looked_through(tmp_path: Path) -> None:
    nodes = [
        node("DequantizeLinear", ["conv1.weight_quantized", "s", "z"], ["w"]),
        node("Conv", ["x", "w"], ["y"], name="node_Conv_7"),
    ]
    stored = [
        constant("conv1.weight_quantized", np.ones((2, 3, 1, 1)), np.int8),
        constant("s", 0.1, np.float32),
        constant("z", 0, np.int8),
    ]
    network = read_onnx(saved(model(nodes, stored, inputs=[value("x", [1, 3, 4, 4])]), tmp_path))
    assert [layer.name for layer in network.layers] == ["conv1"]
    assert [tensor.name for tensor in network.tensors] == ["conv1.weight"]


@pytest.mark.parametrize("name", NAMES)
def test_layers_have_the_same_names_however_they_are_quantized(name: str, tmp_path: Path) -> None:
    floats = weighted(read_onnx(float_path(name, tmp_path)))
    for form in FORMS:
        network = read_onnx(quantized(name, form, tmp_path))
        assert sorted(weighted(network)) == sorted(floats), form
        names = [layer.name for layer in network.layers]
        assert len(set(names)) == len(names)
        assert not any("Fusion" in each or "_quant" in each for each in names)
