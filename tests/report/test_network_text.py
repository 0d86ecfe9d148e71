"""What `inspect` prints, as values: facts, tables, the tree and one layer."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from quantscope.model import Network, QuantParams, bundled_models, read_onnx
from quantscope.plain_text import elide, printable
from quantscope.report.graph.module_tree import module_tree
from quantscope.report.inspect_json import inspection, layer_inspection, node_inspection
from quantscope.report.layer_text import channel_table, corner, histogram, slice_table, tensor_facts
from quantscope.report.network_text import (
    activation_table,
    batch_of,
    constant_table,
    layer_table,
    network_facts,
    residual_table,
)
from quantscope.report.provenance_text import provenance_facts
from quantscope.report.raw_nodes import raw_lines, read_raw_nodes
from quantscope.report.table import Column, Fact, Table, fact_lines
from quantscope.report.wording import amount, attributes_text, shape_text


@pytest.fixture(scope="module")
def int8(quantized: Callable[..., Path]) -> Network:
    return read_onnx(quantized())


@pytest.fixture(scope="module")
def per_tensor(quantized: Callable[..., Path]) -> Network:
    return read_onnx(quantized(per_channel=False, activations="uint8", format="qoperator"))


@pytest.fixture(scope="module")
def floating() -> Network:
    return read_onnx(bundled_models()["resnet8"])


def facts_of(network: Network) -> dict[str, str]:
    return dict(network_facts(network))


def by_heading(table: Table, row: tuple[str, ...]) -> dict[str, str]:
    return dict(zip((column.heading for column in table.columns), row, strict=True))


def test_the_head_says_what_the_file_is(int8: Network) -> None:
    facts = facts_of(int8)
    assert facts["format"].startswith("ONNX QDQ, opset ")
    assert facts["sha256"] == int8.digest
    assert facts["input"] == "input N×3×32×32, quantized to int8"
    assert facts["size"] == (
        "15 layers, 12.5 M MACs, weights 78.7 kB, peak activation memory 49.2 kB at stack1.conv2"
    )
    assert facts["quantized"] == (
        "16 activations int8, 10 weights int8 per channel, 10 biases int32 per channel"
    )
    assert facts["ReLUs"] == "7 folded into quantizers that clip at zero"
    assert facts["shared"] == "2 tensors share their scale with another"


def test_a_float_model_says_that_it_is_float(floating: Network) -> None:
    facts = facts_of(floating)
    assert facts["format"].startswith("float ONNX")
    assert facts["quantized"] == "nothing: this is a float model"
    assert activation_table(floating).rows == constant_table(floating).rows == ()
    assert "(float)" not in " ".join(layer_table(floating).column("type"))


def test_every_layer_has_its_row(int8: Network) -> None:
    table = layer_table(int8)
    assert table.column("layer") == tuple(layer.name for layer in int8.layers)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["stack2.conv1"] == (
        "Conv + ReLU",
        "16×32×32 → 32×16×16",
        "3×3 s2 p0,0,1,1",
        "1.18 M",
        "4,736",
        "24,576",
    )
    assert rows["stack1.add"][:2] == ("Add + ReLU", "2 · 16×32×32")
    assert rows["stack1.conv2"][0] == "Conv"  # its ReLU comes after the addition


def test_a_layer_left_float_is_marked(quantized: Callable[..., Path]) -> None:
    from quantscope.quantize import LayerOverride

    path = quantized(overrides=(LayerOverride("pool", left_float=True),))
    network = read_onnx(path)
    kinds = {row[0]: row[1] for row in layer_table(network).rows}
    quantized_pool = network.layer("pool").is_quantized
    assert ("(float)" in kinds["pool"]) == (not quantized_pool)
    assert "(float)" not in kinds["stem"]


def test_activations_show_their_parameters(int8: Network) -> None:
    table = activation_table(int8)
    assert table.column("tensor") == tuple(t.name for t in int8.tensors if t.role == "activation")
    row = by_heading(table, table.rows[1])
    tensor = int8.tensor("stem.out")
    low, high = tensor.params.representable_range
    assert row["tensor"] == "stem.out"
    assert float(row["scale"]) == pytest.approx(float(tensor.params.scale), rel=1e-4)
    assert row["zero-point"] == "-128"
    assert row["range"] == f"{low:.4g} … {high:.4g}"
    assert row["notes"] == "folded ReLU"
    notes = {row[0]: row[-1] for row in table.rows}
    assert notes["pool.out"] == "≥ 0, shares with flatten.out"


def test_channels_are_summarized_with_their_places(int8: Network) -> None:
    table = constant_table(int8)
    rows = {row[0]: by_heading(table, row) for row in table.rows}
    row, scale = rows["stack2.conv1.weight"], int8.tensor("stack2.conv1.weight").params.scale
    assert row["axis"] == "0"
    assert row["shape"] == "32×16×3×3"
    least, where = row["least"].split("@")
    assert int(where) == scale.argmin()
    assert float(least) == pytest.approx(float(scale.min()), rel=1e-2)
    assert int(row["largest"].split("@")[1]) == scale.argmax()
    assert float(row["mean"]) == pytest.approx(float(scale.mean()), rel=1e-2)
    assert "zero-points are 0" in table.title
    assert "zero-point" not in [column.heading for column in table.columns]


def test_one_scale_a_tensor_needs_one_column(per_tensor: Network) -> None:
    headings = [column.heading for column in constant_table(per_tensor).columns]
    assert "scale" in headings
    assert "least" not in headings


@pytest.mark.parametrize("model", ["int8", "per_tensor", "floating"])
def test_resnet8_fits_a_hundred_columns(model: str, request: pytest.FixtureRequest) -> None:
    network = request.getfixturevalue(model)
    tables = [layer_table(network), activation_table(network), constant_table(network)]
    tables.append(residual_table(network))
    lines = [line for table in tables for line in (table.title, *table.lines())]
    assert max(map(len, lines)) <= 100
    facts = (*network_facts(network), *provenance_facts(network))
    assert all(len(label + text) <= 100 for label, text in fact_lines(facts, 100))


@pytest.mark.parametrize("model", ["int8", "per_tensor", "floating"])
def test_a_narrow_terminal_breaks_no_name_of_resnet8(
    model: str, request: pytest.FixtureRequest
) -> None:
    network = request.getfixturevalue(model)
    for table in (layer_table(network), activation_table(network), constant_table(network)):
        shown = {line.split("  ")[0] for line in table.lines(80)}
        assert {row[0] for row in table.rows} <= shown


def test_residuals_show_ratio_and_bits(int8: Network) -> None:
    table = residual_table(int8)
    assert [name for name in table.column("layer") if name] == [f"stack{i}.add" for i in (1, 2, 3)]
    steps = [float(int8.tensor(name).params.step) for name in ("stem.out", "stack1.conv2.out")]
    assert table.column("ratio")[0] == f"{max(steps) / min(steps):.2f}×"
    output = float(int8.tensor("stack1.add.out").params.step)
    assert float(table.column("bits lost")[0]) == pytest.approx(
        np.log2(output / steps[0]), abs=0.01
    )


def test_the_tree_follows_the_module_path(int8: Network) -> None:
    tree = module_tree(int8)
    assert [branch.label for branch in tree.children] == [
        *("stem", "stack1", "stack2", "stack3", "pool", "flatten", "head")
    ]
    stack = tree.children[2]
    assert [branch.label for branch in stack.children] == ["conv1", "shortcut", "conv2", "add"]
    assert stack.text == "4 layers, 3.67 M MACs, weights 14.7 kB"
    assert "int8  scale" in stack.children[0].text


def test_a_layer_can_also_be_a_module(int8: Network) -> None:
    names = ["a", "a/b", "a.b.c", ".".join("x" * 5000), "..", "a"]
    layers = tuple(replace(int8.layers[0], name=name) for name in names)
    tree = module_tree(replace(int8, layers=layers))
    assert [branch.label for branch in tree.children] == ["a", "a", "x", ".."]
    assert tree.children[0].children[0].children[0].label == "c"


def test_provenance_reads_as_sentences(int8: Network) -> None:
    facts = dict(provenance_facts(int8))
    assert facts["provenance"] == "int8 · per channel · minmax 32 · QDQ"
    assert "activations int8" in facts["  config"]
    assert "not reduce range" in facts["  config"]
    assert "None" not in facts["  config"]


@pytest.mark.parametrize(
    "text", ["{", "[1]", "3", "[" * 100_000, '{"config": NaN}', '{"\\u001b[31m": {"a": [{}]}}']
)
def test_a_strange_provenance_does_no_harm(int8: Network, text: str) -> None:
    network = replace(int8, metadata={"quantscope.provenance": text})
    shown = "".join(label + line for label, line in provenance_facts(network))
    assert "\x1b" not in shown
    json.dumps(inspection(network), allow_nan=False)


def test_one_layer_lists_every_channel(int8: Network) -> None:
    tensor = int8.tensor("stack2.conv1.weight")
    table = channel_table(tensor)
    integers = tensor.integers()
    assert len(table.rows) == 32
    assert table.column("least integer")[5] == str(integers[5].min())
    assert table.column("largest integer")[5] == str(integers[5].max())
    bias = int8.tensor("stack2.conv1.bias")
    assert channel_table(bias).column("integer")[3] == str(bias.integers()[3])


def test_weights_are_shown_as_integers_and_values(int8: Network) -> None:
    tensor = int8.tensor("stack2.conv1.weight")
    table = slice_table(tensor)
    assert table.title == "stack2.conv1.weight[0, 0]: integers, then real values"
    assert table.rows[1][:3] == tuple(f"{v}" for v in tensor.integers()[0, 0, 1])
    assert float(table.rows[1][4]) == pytest.approx(tensor.values()[0, 0, 1, 0], rel=1e-3)
    facts = dict(tensor_facts(tensor))
    integers = tensor.integers()
    assert facts["integers"].startswith(f"4,608 from {integers.min()} to {integers.max()}, ")
    assert f"{(integers == 0).sum():,} zeros" in facts["integers"]


@pytest.mark.parametrize(
    ("shape", "index", "piece"),
    [
        ((4, 3, 3, 3), "[0, 0]", (3, 3)),
        ((32, 16, 1, 1), "[:8, :8, 0, 0]", (8, 8)),
        ((10, 64), "[:, :8]", (8, 8)),
        ((5,), "", (5,)),
        ((1, 1), "[0, 0]", ()),
        ((), "", ()),
    ],
)
def test_a_corner_fits_a_screen(shape: tuple[int, ...], index: str, piece: tuple[int, ...]) -> None:
    text, array = corner(np.zeros(shape))
    assert array.shape == piece
    if shape != (10, 64):
        assert text == index


def test_a_histogram_shows_the_least_value_that_is_there(int8: Network) -> None:
    tensor = int8.tensor("stem.weight")
    one = replace(tensor, read_integers=lambda: np.array([-128] * 9999 + [127], np.int8))
    bars = histogram(one)
    assert len(bars) == 32
    assert bars[0] == "█"
    assert bars[-1] == "▁"
    assert set(bars[1:-1]) == {" "}


@pytest.mark.parametrize("dtype", ["int4", "uint16", "float8e4m3fn", "float4e2m1", "uint2"])
def test_small_and_float_types_are_shown(int8: Network, dtype: str) -> None:
    from quantscope.arithmetic.params import storage_dtype

    stored = np.array([[0, 1, 1], [1, 0, 1]]).astype(storage_dtype(dtype))
    tensor = replace(
        int8.tensor("head.weight"),
        params=QuantParams([0.5, 0.25], None, dtype, axis=0),
        shape=(2, 3),
        read_integers=lambda: stored,
    )
    table = channel_table(tensor)
    assert ("step" in [c.heading for c in table.columns]) == dtype.startswith("float")
    assert table.column("largest integer") == ("1", "1")
    assert slice_table(tensor).rows[0][:3] == ("0", "1", "1")
    head = int8.layer("head")
    inputs = tuple(replace(o, quant=tensor) if o.role == "weight" else o for o in head.inputs)
    result = layer_inspection(int8, replace(head, inputs=inputs))
    entry = next(t for t in result["tensors"] if t["name"] == "head.weight")
    assert entry["integers"] == [[0, 1, 1], [1, 0, 1]]
    assert entry["values"] == [[0.0, 0.5, 0.5], [0.25, 0.0, 0.25]]


def test_raw_lists_every_node_of_the_file(quantized: Callable[..., Path]) -> None:
    path = quantized()
    nodes = onnx.load(path).graph.node
    graph = read_raw_nodes(path)
    assert [node.name for node in graph.nodes] == [node.name for node in nodes]
    assert [list(node.inputs) for node in graph.nodes] == [list(node.input) for node in nodes]
    assert sum(graph.counts.values()) == len(nodes)
    lines = list(raw_lines(graph))
    assert lines[-1].startswith(f"{len(nodes)} nodes: 36 DequantizeLinear, 16 QuantizeLinear, ")
    stem = next(node for node in graph.nodes if node.name == "stem.relu.out_QuantizeLinear")
    assert stem.params[0].zero_point is not None
    assert stem.params[0].zero_point.item() == -128
    scale = next(i for i in onnx.load(path).graph.initializer if i.name == "stem.relu.out_scale")
    assert stem.params[0].scale == numpy_helper.to_array(scale)


def test_raw_shows_the_three_scales_of_a_qlinear_operator(quantized: Callable[..., Path]) -> None:
    graph = read_raw_nodes(quantized(format="qoperator"))
    conv = next(node for node in graph.nodes if node.op_type == "QLinearConv")
    assert [params.value for params in conv.params] == [
        conv.inputs[0],
        conv.inputs[3],
        conv.outputs[0],
    ]
    assert node_inspection(graph)["counts"]["QLinearConv"] == 9


def test_json_holds_what_the_tables_show(int8: Network) -> None:
    result = json.loads(json.dumps(inspection(int8), allow_nan=False))
    assert result["schema_version"] == 1
    assert result["kind"] == "network"
    assert len(result["layers"]) == 15
    assert len(result["tensors"]) == 36
    assert len(result["residuals"]) == 3
    assert result["provenance"]["config"]["activations"] == "int8"
    assert result["not_finite"] == {}


def test_layer_json_holds_every_integer(int8: Network) -> None:
    result = layer_inspection(int8, int8.layer("stack2.conv1"))
    weight = next(t for t in result["tensors"] if t["role"] == "weight")
    tensor = int8.tensor("stack2.conv1.weight")
    assert np.array_equal(weight["integers"], tensor.integers())
    np.testing.assert_array_equal(np.array(weight["values"], np.float32), tensor.values())
    assert weight["params"]["scale"] == tensor.params.scale.tolist()


def test_infinity_is_null_and_said_so(int8: Network) -> None:
    weight = replace(
        int8.tensor("head.weight"),
        params=QuantParams(3e38, None, "int8"),
        read_integers=lambda: np.array([1, 2, -3], np.int8),
    )
    head = int8.layer("head")
    inputs = tuple(replace(o, quant=weight) if o.role == "weight" else o for o in head.inputs)
    attributes = {"alpha": float("nan")}
    with np.errstate(over="ignore"):
        result = layer_inspection(int8, replace(head, inputs=inputs, attributes=attributes))
    json.dumps(result, allow_nan=False)
    place = [t["name"] for t in result["tensors"]].index("head.weight")
    assert result["tensors"][place]["values"][1:] == [None, None]
    assert result["not_finite"] == {
        f"tensors[{place}].values[1]": "inf",
        f"tensors[{place}].values[2]": "-inf",
        "layer.attributes.alpha": "nan",
    }


def test_every_documented_key_is_there_and_every_key_is_documented(int8: Network) -> None:
    text = (Path(__file__).parents[2] / "docs" / "inspect-json.md").read_text()
    raw = node_inspection(read_raw_nodes(int8.path))
    parts = [inspection(int8), layer_inspection(int8, int8.layers[0]), raw]
    whole = parts[0]
    objects = [*parts, whole["layers"][0], whole["layers"][0]["inputs"][0], whole["tensors"][1]]
    objects += [whole["tensors"][1]["params"], whole["tensors"][1]["params"]["scale"]]
    objects += [whole["residuals"][0], whole["residuals"][0]["branches"][0]]
    objects += [raw["nodes"][0], raw["nodes"][0]["quantization"][0]]
    missing = {key for entry in objects for key in entry if f"`{key}`" not in text}
    assert not missing


def test_long_names_fold_and_are_not_cut() -> None:
    name = "model.encoder.layers.11.attention.self.query"
    table = Table("t", (Column("layer"), Column("n", right=True)), ((name, "1"),))
    lines = list(table.lines(30))
    assert max(map(len, lines)) <= 30
    assert "".join(line[:27].strip() for line in lines[1:]) == name
    assert list(table.lines())[1] == f"{name}  1"


def test_facts_fold_at_spaces() -> None:
    lines = list(fact_lines([Fact("note", "one two three four five")], 20))
    assert [text for _, text in lines] == ["one two three", "four five"]
    assert [label for label, _ in lines] == ["note  ", "      "]


def test_names_cannot_steer_a_terminal() -> None:
    assert printable("a\x1b[2Jb\nc\u202e<ü>") == "a\\x1b[2Jb\\nc\\u202e<ü>"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (640, "640"), (999, "999"), (78744, "78.7 k"), (12501632, "12.5 M"), (None, "?")],
)
def test_amounts_have_three_digits(value: int | None, text: str) -> None:
    assert amount(value) == text


def test_attributes_leave_out_what_is_neutral() -> None:
    attributes = {"kernel_shape": (3, 5), "strides": (1, 1), "pads": (0, 1, 0, 1), "group": 1}
    assert attributes_text(attributes) == "3×5 p0,1,0,1"
    assert attributes_text({"group": 4, "dilations": (2, 2), "axis": -1}) == "d2 g4 axis=-1"


def test_shapes_name_what_is_not_known() -> None:
    assert shape_text(None) == "?"
    assert shape_text(()) == "scalar"
    assert shape_text(("N", None, 7)) == "N×?×7"
    assert shape_text(("N", 3), batch="N") == "3"
    assert elide("abcdefghij", 5) == "ab…ij"


def test_the_batch_is_left_out_only_where_all_share_it(int8: Network, tmp_path: Path) -> None:
    assert batch_of(int8) == "N"
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", onnx.TensorProto.FLOAT, [2, 3])],
        [value("y", onnx.TensorProto.FLOAT, [3, 2])],
    )
    path = tmp_path / "t.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    network = read_onnx(path)
    assert batch_of(network) is None
    assert layer_table(network).column("shape") == ("2×3 → 3×2",)
