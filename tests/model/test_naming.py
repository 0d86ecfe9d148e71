"""Names are a person's, unique, and the same in a float model and its quantized versions."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import helper
from tiny_onnx import constant, model, saved, weights

from quantscope.model import read_onnx
from quantscope.model.naming import NodeTitle, layer_names, make_unique
from quantscope.model.onnx import Format


def title(name: str, op: str = "Conv", format_: Format = "float", **more: str) -> NodeTitle:
    return NodeTitle(name, op, format_, **more)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (title("stack1.conv1"), "stack1.conv1"),
        (title("stack1.conv1_quant", format_="qoperator"), "stack1.conv1"),
        (title("stack1.conv1_quant", format_="float"), "stack1.conv1_quant"),
        (title("fc_Q4", "MatMul", "qoperator"), "fc"),
        (title("fc_matmul_Q4", "MatMul", "qdq"), "fc"),
        (title("node_conv2d_3"), "conv2d_3"),
        (title("/stack1/conv1/Conv"), "stack1.conv1"),
        (title("/stack1/conv1/Conv_quant", format_="qoperator"), "stack1.conv1"),
        (title("/stack1/Add_1", "Add"), "stack1"),
        (title("/Relu", "Relu"), "Relu"),
        (title("model/conv2d/BiasAdd"), "conv2d"),
        (title("StatefulPartitionedCall/model_1/block_3/dense/MatMul", "MatMul"), "block_3.dense"),
        (title("model/block/add/add", "Add"), "block.add.add"),
        (title("/layer1/layer1.0/conv1/Conv"), "layer1.0.conv1"),
        (title("/layer2/layer2.0/downsample/downsample.0/Conv"), "layer2.0.downsample.0"),
        (title("/model.0/model.0.2/HardSwish", "Mul"), "model.0.2.HardSwish"),
        (title("/fc/MatMul/MatMulAddFusion", "Gemm", "qdq"), "fc"),
        (title("/fc/Gemm_MatMul_quant", "MatMul", "dynamic"), "fc"),
    ],
)
def test_what_exporters_and_quantizers_add_is_taken_off(node: NodeTitle, expected: str) -> None:
    assert layer_names([node]) == [expected]


@pytest.mark.parametrize(
    ("scopes", "classes", "expected"),
    [
        (
            "['', 'stack1', 'stack1.conv1', 'conv2d_1']",
            "['m.Net', 'm.Stack', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d.default']",
            "stack1.conv1",
        ),
        ("['', 'stack1', 'add']", "['m.Net', 'm.Stack', 'aten.add.Tensor']", "stack1.add"),
        ("['', 'view']", "['m.Net', 'aten.view.default']", "view"),
        (
            "['', 'seq', 'relu']",
            "['m.Net', 'torch.nn.modules.container.Sequential', 'aten.relu.default']",
            "seq.relu",
        ),
        ("__import__('os')", "", "node"),
        ("[" * 500, "", "node"),
        ("[1, 2]", "", "node"),
    ],
)
def test_the_module_path_of_pytorch_is_the_name(scopes: str, classes: str, expected: str) -> None:
    assert layer_names([title("node", name_scopes=scopes, class_hierarchy=classes)]) == [expected]


def test_the_layer_with_the_weights_has_its_modules_name() -> None:
    nodes = [
        title("/self/query/MatMul", "MatMul", has_weight=True),
        title("/self/query/Add", "Add"),
        title("/self/MatMul", "MatMul"),
        title("/self/MatMul_1", "MatMul"),
        title("/act/Sigmoid", "Sigmoid"),
        title("/act/Mul", "Mul"),
        title("/relu/Relu", "Relu"),
    ]
    assert layer_names(nodes) == [
        *("self.query", "self.query.Add", "self.MatMul", "self.MatMul_1"),
        *("act.Sigmoid", "act.Mul", "relu"),
    ]


def test_the_owner_of_the_weights_goes_before_the_folded_norm() -> None:
    scopes = "['', 'bn1', 'batch_norm']"
    classes = "['m.Net', 'torch.nn.modules.batchnorm.BatchNorm2d', 'aten.batch_norm']"
    node = title("node_Conv_1", name_scopes=scopes, class_hierarchy=classes, owner="conv1")
    assert layer_names([node]) == ["conv1"]


def test_a_bias_names_a_product_whose_node_and_weight_lost_theirs() -> None:
    nodes = [
        title("node_MatMul_9", "MatMul", bias_owner="query", has_weight=True),
        title("node_linear", "Add", bias_owner="query"),
    ]
    assert layer_names(nodes) == ["query", "query.Add"]


def test_unnamed_layers_count_their_own_kind() -> None:
    with_relus = [title("", op) for op in ("Conv", "Relu", "Conv", "Relu", "Gemm")]
    without = [title("", op, "qdq") for op in ("Conv", "Conv", "Gemm")]
    assert layer_names(with_relus) == ["conv_1", "relu_1", "conv_2", "relu_2", "gemm_1"]
    assert layer_names(without) == ["conv_1", "conv_2", "gemm_1"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b", "a"], ["a", "b", "a_2"]),
        (["a", "a_2", "a", "a"], ["a", "a_2", "a_3", "a_4"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
    ],
)
def test_names_become_unique_and_given_ones_stay(names: Sequence[str], expected: list[str]) -> None:
    assert make_unique(names) == expected


def test_metadata_of_nodes_reaches_the_names(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="node_conv2d")
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'features.0', 'conv2d']")
    node.metadata_props.add(
        key="pkg.torch.onnx.class_hierarchy",
        value="['Net', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d.default']",
    )
    path = saved(model([node], [constant("w", weights(2, 3, 3, 3))]), tmp_path)
    network = read_onnx(path)
    assert [layer.name for layer in network.layers] == ["features.0"]
    assert network.layer("node_conv2d") is network.layer("features.0")
