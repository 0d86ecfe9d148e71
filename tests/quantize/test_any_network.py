"""Float ONNX networks of any kind are quantized, as onnxruntime does it and where it would not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from tests import small_networks

from quantscope.data import Intake, Samples
from quantscope.errors import QuantscopeError
from quantscope.model import open_model
from quantscope.model.onnx import load_onnx
from quantscope.quantize import LayerOverride, PtqConfig, quantize_model, quantize_onnx
from quantscope.quantize.onnx_prepare import pre_process, quiet

ROWS = 4
FORMS: dict[str, dict[str, Any]] = {
    "int8": {},
    "uint8": {"activations": "uint8", "per_channel": False},
    "qoperator": {"activations": "uint8", "per_channel": False, "format": "qoperator"},
    "int16": {"activations": "int16"},
}


def config(**options: Any) -> PtqConfig:
    return PtqConfig(**{"calibration_images": ROWS, **options})


def rows_for(name: str) -> Samples:
    """Rows of every input with the rows first, as files of samples have them."""
    arrays = {
        key: np.moveaxis(array, 1 if key == "state" else 0, 0)
        for key, array in small_networks.feeds(name, ROWS, seed=5).items()
    }
    return Samples.from_arrays("given.npz", arrays)


def run(path: Path, feeds: Any) -> list[NDArray[Any]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def signals_db(plain: Path, quantized: Path, rows: Samples) -> list[float]:
    """Give the signal-to-noise of every output over all rows."""
    batches = list(Intake.of(open_model(plain)).batches(rows))
    expected = [run(plain, batch.feeds) for batch in batches]
    found = [run(quantized, batch.feeds) for batch in batches]
    ratios = []
    for place in range(len(expected[0])):
        signal = sum(float(np.sum(np.float64(one[place]) ** 2)) for one in expected)
        noise = sum(
            float(np.sum((np.float64(one[place]) - other[place]) ** 2))
            for one, other in zip(expected, found, strict=True)
        )
        ratios.append(float(10 * np.log10(signal / noise)) if noise else np.inf)
    return ratios


def write(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, Any],
    *,
    inputs: dict[str, list[Any]],
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    return path


def constants(path: Path) -> dict[str, NDArray[Any]]:
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


def normal(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", small_networks.NAMES)
def test_all_outputs_stay_close(name: str, form: str, tmp_path: Path) -> None:
    plain, rows = small_networks.float_path(name, tmp_path), rows_for(name)
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(**FORMS[form]), calibration=rows)
    onnx.checker.check_model(made.path, full_check=form != "qoperator")
    before, after = open_model(plain), open_model(made.path)
    assert after.inputs == before.inputs
    assert [port.name for port in after.outputs] == [port.name for port in before.outputs]
    assert min(signals_db(plain, made.path, rows)) > 20


class Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, path: Path, rows: Samples) -> None:
        self.batches = iter(Intake.of(open_model(path)).batches(rows))

    def get_next(self) -> Any:
        batch = next(self.batches, None)
        return None if batch is None else batch.feeds


@pytest.mark.parametrize("format", ["qdq", "qoperator"])
@pytest.mark.parametrize("name", small_networks.NAMES)
def test_scales_are_those_of_quantize_static(name: str, format: str, tmp_path: Path) -> None:
    plain, rows = small_networks.float_path(name, tmp_path), rows_for(name)
    quantize_onnx(plain, tmp_path / "ours.onnx", config(format=format), calibration=rows)
    pre_process(load_onnx(plain), tmp_path / "prepared.onnx")
    with quiet():
        quantize_static(
            tmp_path / "prepared.onnx",
            tmp_path / "plain.onnx",
            Reader(plain, rows),
            quant_format=QuantFormat.QDQ if format == "qdq" else QuantFormat.QOperator,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
        )
    ours, theirs = constants(tmp_path / "ours.onnx"), constants(tmp_path / "plain.onnx")
    scales = {key for key in theirs if key.endswith(("_scale", "_zero_point"))}
    assert scales == {key for key in ours if key.endswith(("_scale", "_zero_point"))}
    for key in scales:
        # An empty tensor of values never seen is NaN in neither.
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-6, atol=0, err_msg=key)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("mobile", "/head/act/HardSwish"),
        ("mobile", "head.act"),
        ("mobile", "/head.bn/BatchNormalization"),
        ("autoencoder", "/layers.3/Add"),
        ("autoencoder", "/layers.3/MatMul"),
    ],
)
def test_layers_that_preparing_splits_or_fuses_are_left_float(
    name: str, layer: str, tmp_path: Path
) -> None:
    """HardSwish becomes two operators, BatchNormalization none, MatMul and Add one."""
    plain, rows = small_networks.float_path(name, tmp_path), rows_for(name)
    left = (LayerOverride(layer, left_float=True),)
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(overrides=left), calibration=rows)
    everything = quantize_onnx(plain, tmp_path / "all.onnx", config(), calibration=rows)
    assert made.warnings == ()
    assert dequantizers(made.path) < dequantizers(everything.path)


def dequantizers(path: Path) -> int:
    return sum(node.op_type == "DequantizeLinear" for node in onnx.load(path).graph.node)


def test_layers_that_are_gone_or_float_anyway_are_said(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["i"], name="same"),
        helper.make_node("Conv", ["i", "w"], ["c"], name="conv"),
        helper.make_node("Erf", ["c"], ["y"], name="erf"),
    ]
    plain = write(tmp_path / "f.onnx", nodes, {"w": normal(4, 3, 1, 1)}, inputs={"x": [1, 3, 2, 2]})
    rows = Samples.from_arrays("given.npz", {"x": normal(ROWS, 3, 2, 2)})

    def quantize(layer: str) -> Any:
        left = (LayerOverride(layer, left_float=True),)
        return quantize_onnx(plain, tmp_path / "q.onnx", config(overrides=left), calibration=rows)

    with pytest.raises(QuantscopeError) as raised:
        quantize("same")
    assert str(raised.value) == (
        "Layer 'same' (Identity) is not there any more when layers are quantized: preparing folds "
        "it into others; name one of those"
    )
    assert quantize("erf").warnings == (
        "Layer 'erf' is float in any case: Erf has no quantized form",
    )


def test_nodes_without_names_get_those_that_inspect_shows(tmp_path: Path) -> None:
    model = small_networks.float_model("mobile")
    for node in model.graph.node:
        node.name = ""
    plain, rows = tmp_path / "f.onnx", rows_for("mobile")
    plain.write_bytes(model.SerializeToString())
    before = [layer.name for layer in open_model(plain).network.layers if layer.op_type == "Conv"]
    left = (LayerOverride(before[1], left_float=True),)
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(overrides=left), calibration=rows)
    after = {n.name: n for n in open_model(made.path).network.layers if n.op_type == "Conv"}
    assert list(after) == before
    assert [name for name in before if after[name].weight is None] == [before[1]]


def branch(name: str, node: onnx.NodeProto, shape: list[Any]) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, shape)
    return helper.make_graph([node], name, [], [output])


def test_what_a_branch_reads_is_left_to_it(tmp_path: Path) -> None:
    """A ReLU that is folded away elsewhere stays, and nodes stand before the If that reads them."""
    inside = [
        branch("then", helper.make_node("Identity", ["r"], ["t"], name="id"), [1, 4, 2, 2]),
        branch("else", helper.make_node("Neg", ["r"], ["e"], name="neg"), [1, 4, 2, 2]),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("ReduceSum", ["x"], ["s"], name="sum", keepdims=0),
        helper.make_node("Greater", ["s", "low"], ["g"], name="greater"),
        helper.make_node(
            "If", ["g"], ["i"], name="if", then_branch=inside[0], else_branch=inside[1]
        ),
        helper.make_node("Conv", ["i", "v"], ["y"], name="last"),
    ]
    weights = {"w": normal(4, 3, 1, 1), "v": normal(5, 4, 1, 1), "low": np.float32(-1e9)}
    plain = write(tmp_path / "f.onnx", nodes, weights, inputs={"x": [1, 3, 2, 2]})
    rows = Samples.from_arrays("given.npz", {"x": normal(ROWS, 3, 2, 2)})
    for form in FORMS.values():
        made = quantize_onnx(plain, tmp_path / "q.onnx", config(**form), calibration=rows)
        onnx.checker.check_model(made.path)
        assert signals_db(plain, made.path, rows)[0] > 20
    assert made.warnings == ()


def test_layers_inside_branches_stay_float_and_that_is_said(tmp_path: Path) -> None:
    convolve = helper.make_node("Conv", ["x", "w"], ["t"], name="inner")
    other = helper.make_node("Conv", ["x", "v"], ["e"], name="other")
    both = [branch("then", convolve, [1, 4, 2, 2]), branch("else", other, [1, 4, 2, 2])]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], name="sum", keepdims=0),
        helper.make_node("Greater", ["s", "low"], ["g"], name="greater"),
        helper.make_node("If", ["g"], ["i"], name="if", then_branch=both[0], else_branch=both[1]),
    ]
    weights = {"w": normal(4, 3, 1, 1), "v": normal(4, 3, 1, 1, seed=2), "low": np.float32(0)}
    rows = Samples.from_arrays("given.npz", {"x": normal(ROWS, 3, 2, 2)})
    all_inside = write(
        tmp_path / "inside.onnx", nodes, weights, inputs={"x": [1, 3, 2, 2]}, outputs=["i"]
    )
    with pytest.raises(QuantscopeError) as raised:
        quantize_onnx(all_inside, tmp_path / "q.onnx", config(), calibration=rows)
    assert str(raised.value) == (
        f"Nothing in {all_inside} was quantized: it has no operator that onnxruntime quantizes, or "
        "all were left float; its layers stand inside 'if' (If), which is not entered"
    )
    nodes.append(helper.make_node("Conv", ["i", "u"], ["y"], name="last"))
    weights["u"] = normal(2, 4, 1, 1)
    plain = write(tmp_path / "f.onnx", nodes, weights, inputs={"x": [1, 3, 2, 2]})
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(), calibration=rows)
    assert made.warnings == ("The layers inside 'if' (If) stay float: they are not entered",)
    assert signals_db(plain, made.path, rows)[0] > 20


@pytest.mark.parametrize("fill", [-np.inf, float(np.finfo(np.float32).min)])
def test_layers_on_a_masks_endless_values_stay_float(fill: float, tmp_path: Path) -> None:
    mask = np.where(np.tril(np.ones((6, 6), bool)), 0, fill).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"], name="query"),
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "t"], ["scores"], name="scores"),
        helper.make_node("Add", ["scores", "zeros"], ["more"], name="more"),
        helper.make_node("Where", ["allowed", "more", "fill"], ["masked"], name="mask"),
        helper.make_node("Softmax", ["masked"], ["p"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["p", "x"], ["y"], name="values"),
    ]
    weights = {
        "w": normal(8, 8),
        "zeros": np.zeros((1, 6, 6), np.float32),
        "allowed": mask == 0,
        "fill": np.float32(fill),
    }
    plain = write(tmp_path / "f.onnx", nodes, weights, inputs={"x": ["N", 6, 8]})
    rows = Samples.from_arrays("given.npz", {"x": normal(ROWS, 6, 8)})
    for options in ({}, {"calibration": "percentile"}, {"format": "qoperator"}):
        made = quantize_onnx(plain, tmp_path / "q.onnx", config(**options), calibration=rows)
        assert made.warnings == (
            "'masked' has values of 1e30 and more or infinity, as masks have them, and so no "
            "range; the layers that read or write such stay float",
        )
        assert signals_db(plain, made.path, rows)[0] > 15


def test_per_channel_raises_old_opsets_and_says_where_it_cannot(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    ports = {"inputs": {"x": [1, 3, 2, 2]}, "opset": 11}
    plain = write(tmp_path / "f.onnx", nodes, {"w": normal(4, 3, 1, 1)}, **ports)
    rows = Samples.from_arrays("given.npz", {"x": normal(ROWS, 3, 2, 2)})
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(), calibration=rows)
    onnx.checker.check_model(made.path, full_check=True)
    assert load_onnx(made.path).opset == 13
    assert constants(made.path)["w_scale"].shape == (4,)
    assert signals_db(plain, made.path, rows)[0] > 20
    per_tensor = quantize_onnx(
        plain, tmp_path / "q.onnx", config(per_channel=False), calibration=rows
    )
    assert load_onnx(per_tensor.path).opset == 11


def test_shapes_that_onnxruntime_disputes_are_found_anew(tmp_path: Path) -> None:
    plain, rows = small_networks.float_path("unet", tmp_path), rows_for("unet")
    model = onnx.load(plain)
    for value in model.graph.value_info:
        if value.name == "/up.1/Concat_output_0":
            value.type.tensor_type.shape.dim[2].dim_value = 7
    plain.write_bytes(model.SerializeToString())
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(), calibration=rows)
    assert signals_db(plain, made.path, rows)[0] > 20


def test_rows_of_several_sizes_of_batches_give_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the values of a batch would take too much memory, fewer rows are run at once."""
    plain, rows = small_networks.float_path("bytes", tmp_path), rows_for("bytes")
    quantize_onnx(plain, tmp_path / "whole.onnx", config(), calibration=rows)
    monkeypatch.setattr("quantscope.quantize.calibration.VALUE_BYTES_A_BATCH", 40_000)
    quantize_onnx(plain, tmp_path / "parts.onnx", config(), calibration=rows)
    whole, parts = constants(tmp_path / "whole.onnx"), constants(tmp_path / "parts.onnx")
    assert whole.keys() == parts.keys()
    for key, value in whole.items():
        np.testing.assert_allclose(parts[key], value, rtol=1e-5)


def test_random_rows_are_said_in_the_result_and_the_file(tmp_path: Path) -> None:
    plain = small_networks.float_path("bytes", tmp_path)
    rows = replace(rows_for("bytes"), is_random=True)
    made = quantize_onnx(plain, tmp_path / "q.onnx", config(), calibration=rows)
    assert made.warnings[0] == (
        "It was calibrated with random rows: its ranges are those of noise and mean little for "
        "real data; calibrate with real rows before you judge or use it"
    )
    assert made.provenance["calibration"]["random"] is True


def test_models_that_need_rows_of_their_own_ask_for_them(tmp_path: Path) -> None:
    plain = small_networks.float_path("encoder", tmp_path)
    with pytest.raises(QuantscopeError) as raised:
        quantize_onnx(plain, tmp_path / "q.onnx", config())
    assert str(raised.value) == (
        "encoder-N.onnx takes 'input_ids' int64 [N, 10], 'attention_mask' int64 [N, 10], "
        "'token_type_ids' int64 [N, 10], so CIFAR-10's images cannot calibrate it; give an array "
        "for each of them with --calibration-data FILE.npz, or --calibration-data random"
    )


def test_arrays_by_name_and_random_rows_calibrate(tmp_path: Path) -> None:
    plain = small_networks.float_path("encoder", tmp_path)
    given = quantize_model(
        plain, tmp_path / "a.onnx", config(), calibration=small_networks.feeds("encoder", ROWS)
    )
    assert given.warnings == () or "random" not in given.warnings[0]
    made = quantize_model(plain, tmp_path / "b.onnx", config(), calibration=f"random:{ROWS}")
    assert made.warnings[0].startswith("It was calibrated with random rows")
