"""Each layer's quantization switched, against a loop that rebuilds and runs every model whole."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from quantscope.data import ImageSet, load_sample
from quantscope.edit import Editor, Off, On
from quantscope.errors import BadConfigError, BadDataError, BadModelError, StoppedError
from quantscope.model import bundled_models
from quantscope.progress import Progress, silent
from quantscope.quantize import LayerOverride, PtqConfig, quantize_onnx
from quantscope.run import Evaluation, compare_evaluations, evaluate
from quantscope.study.sensitivity.results import RowMode, Sensitivity
from quantscope.study.sensitivity.sensitivity import sensitivity
from quantscope.study.sweep import graph as sweep_graph

SAMPLE = load_sample().take(12)
RNG = np.random.default_rng(11)
SHAPE = (3, 8, 6)


def pictures(count: int) -> ImageSet:
    """Made up, with labels that are as good as random."""
    images = RNG.normal(0, 1, (count, *SHAPE)).astype(np.float32)
    labels = RNG.integers(0, 4, count)
    return ImageSet.of_images(
        "made up", images, labels, np.arange(100, 100 + count), ("a", "b", "c", "d"), "as-is"
    )


PICTURES = pictures(41)


def with_images(images: np.ndarray) -> ImageSet:
    return replace(PICTURES, arrays={"images": images})


def random(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(0, 1 / np.sqrt(max(1, int(np.prod(shape[1:])))), shape).astype(np.float32)


@pytest.fixture(scope="module")
def float_net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unlike ResNet8: max pooling, two branches that are concatenated, a matrix product."""
    shapes = {"a": (5, 3, 3, 3), "b": (4, 5, 1, 1), "c": (3, 5, 3, 3), "fc": (4, 7)}
    stored = [numpy_helper.from_array(random(*s), f"{n}.weight") for n, s in shapes.items()]
    stored += [numpy_helper.from_array(random(s[0]), f"{n}.bias") for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a.weight", "a.bias"], ["a1"], pads=[1, 1, 1, 1], name="a"),
        helper.make_node("Relu", ["a1"], ["a2"], name="a.relu"),
        helper.make_node("MaxPool", ["a2"], ["p"], kernel_shape=[2, 2], strides=[2, 2], name="p"),
        helper.make_node("Conv", ["p", "b.weight", "b.bias"], ["b1"], name="b"),
        helper.make_node("Relu", ["b1"], ["b2"], name="b.relu"),
        helper.make_node("Conv", ["p", "c.weight", "c.bias"], ["c1"], pads=[1, 1, 1, 1], name="c"),
        helper.make_node("Concat", ["b2", "c1"], ["d"], axis=1, name="d"),
        helper.make_node("GlobalAveragePool", ["d"], ["g"], name="g"),
        helper.make_node("Flatten", ["g"], ["f"], name="f"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], transB=1, name="fc"),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", kind, ["N", *SHAPE])],
        [helper.make_tensor_value_info("y", kind, ["N", 4])],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path_factory.mktemp("branches") / "branches.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def net(float_net: Path) -> Path:
    path = float_net.with_name("branches-int8.onnx")
    config = PtqConfig(activations="int8", per_channel=True, calibration_images=41)
    quantize_onnx(float_net, path, config, calibration=PICTURES)
    return path


@pytest.fixture(scope="module")
def both(net: Path, float_net: Path) -> Sensitivity:
    return sensitivity(net, PICTURES, float_model=float_net, mode="both", threads=1)


@pytest.fixture(scope="module")
def bundled() -> Sensitivity:
    return sensitivity("resnet8-int8", SAMPLE, mode="both")


class NaiveLoop:
    """Every variant written to a file and evaluated whole."""

    def __init__(self, model: Path, float_model: Path, images: ImageSet, folder: Path) -> None:
        self.editor, self.images, self.folder = Editor(model, float_model), images, folder
        self.floats = evaluate(float_model, images, execution="reference")

    def run(self, edits: list[Off | On], execution: Any = "reference") -> Evaluation:
        path = self.folder / "variant.onnx"
        self.editor.apply(edits).save(path)
        return evaluate(path, self.images, execution=execution, threads=1)

    def check(self, result: Sensitivity, mode: RowMode) -> None:
        rows = [row for row in result.rows if row.mode == mode]
        assert rows
        everything = [Off(row.layer) for row in rows] if mode == "enable" else []
        base = self.run([*everything], result.execution)
        for row in rows:
            switch = Off(row.layer) if mode == "disable" else On(row.layer)
            found = self.run([*everything, switch], result.execution)
            delta = compare_evaluations(found, base)
            assert (row.accuracy, row.delta) == (found.accuracy, delta.delta)
            assert (row.interval_95, row.p_value) == (delta.interval_95, delta.p_value)
            assert list(row.gained_images) == delta.gained.tolist()
            assert list(row.lost_images) == delta.lost.tolist()
            assert (row.gained, row.lost) == (len(delta.gained), len(delta.lost))
            assert row.changed == len(delta.changed)
            assert row.exact == np.array_equal(found.scores, self.floats.scores)
            assert row.unchanged == np.array_equal(found.scores, base.scores)
            if not row.exact:
                # As PyTorch's `compute_sqnr`; equal but for float64, so the scores are the same.
                f, q = (e.scores.astype(np.float64) for e in (self.floats, found))
                sqnr = 20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q))
                assert row.logit_sqnr_db == pytest.approx(sqnr, rel=1e-12)


@pytest.mark.parametrize("mode", ["disable", "enable"])
def test_resnet8_gives_what_a_naive_loop_gives(
    bundled: Sensitivity, tmp_path: Path, mode: RowMode
) -> None:
    models = bundled_models()
    NaiveLoop(models["resnet8-int8"], models["resnet8"], SAMPLE, tmp_path).check(bundled, mode)


@pytest.mark.parametrize("mode", ["disable", "enable"])
def test_another_network_gives_what_a_naive_loop_gives(
    both: Sensitivity, net: Path, float_net: Path, tmp_path: Path, mode: RowMode
) -> None:
    NaiveLoop(net, float_net, PICTURES, tmp_path).check(both, mode)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_the_kernels_that_ship_give_what_a_naive_loop_gives(
    quantized: Callable[..., Path], tmp_path: Path, activations: str
) -> None:
    model = quantized(activations=activations, per_channel=True)
    result = sensitivity(model, SAMPLE, execution="runtime")
    assert result.execution == "runtime"
    NaiveLoop(model, bundled_models()["resnet8"], SAMPLE, tmp_path).check(result, "disable")


def test_a_qoperator_model_gives_what_a_naive_loop_gives(
    quantized: Callable[..., Path], tmp_path: Path
) -> None:
    model = quantized(activations="uint8", format="qoperator")
    result = sensitivity(model, SAMPLE, float_model="resnet8")
    assert any("QOperator" in note for note in result.notes)
    NaiveLoop(model, bundled_models()["resnet8"], SAMPLE, tmp_path).check(result, "disable")


def test_rows_are_inputs_and_layers_with_quantization_of_their_own(both: Sensitivity) -> None:
    disabled = [row for row in both.rows if row.mode == "disable"]
    # Max pooling and Flatten move numbers that were quantized before; the ReLUs are folded.
    assert [row.layer for row in disabled] == ["x", "a", "b", "c", "d", "g", "fc"]
    assert disabled[0].op_type == "Input"
    assert [row.op_type for row in disabled[1:]] == [
        *["Conv"] * 3, "Concat", "GlobalAveragePool", "Gemm"
    ]  # fmt: skip


def test_a_layer_is_its_weight_bias_and_output(both: Sensitivity) -> None:
    rows = {(row.layer, row.mode): set(row.tensors) for row in both.rows}
    assert {"a.weight", "a.bias", "a.out"} <= rows["a", "disable"]
    assert rows["a", "enable"] == rows["a", "disable"]
    assert rows["x", "disable"] == rows["x", "enable"] == {"x"}


def test_a_layer_without_quantization_is_no_row(float_net: Path, tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    overrides = (LayerOverride("fc", left_float=True),)
    config = PtqConfig(activations="uint8", calibration_images=41, overrides=overrides)
    quantize_onnx(float_net, path, config, calibration=PICTURES)
    result = sensitivity(path, PICTURES, float_model=float_net)
    assert "fc" not in {row.layer for row in result.rows}
    assert "c" in {row.layer for row in result.rows}


def test_an_input_alone_is_the_float_model_on_rounded_images(
    both: Sensitivity, net: Path, float_net: Path
) -> None:
    params = {t.name: numpy_helper.to_array(t) for t in onnx.load(net).graph.initializer}
    scale, zero = params["x_scale"], params["x_zero_point"].astype(np.float32)
    steps = np.clip(np.rint(PICTURES.images / scale) + zero, -128, 127)
    rounded = with_images(((steps - zero) * scale).astype(np.float32))
    f, q = (evaluate(float_net, i, execution="reference").scores for i in (PICTURES, rounded))
    row = next(row for row in both.rows if (row.layer, row.mode) == ("x", "enable"))
    sqnr = 20 * np.log10(np.linalg.norm(f) / np.linalg.norm(f - q))
    assert row.logit_sqnr_db == pytest.approx(sqnr, abs=1e-4)


def test_both_is_one_mode_after_the_other(both: Sensitivity, net: Path, float_net: Path) -> None:
    modes: tuple[RowMode, ...] = ("disable", "enable")
    one, other = (sensitivity(net, PICTURES, float_model=float_net, mode=m) for m in modes)
    assert both.rows == (*one.rows, *other.rows)
    assert (both.quantized, both.all_off) == (one.quantized, other.all_off)
    assert one.all_off is None and other.quantized is None


def test_with_everything_off_it_is_the_float_network(bundled: Sensitivity) -> None:
    assert bundled.all_off is not None
    assert bundled.all_off.exact and bundled.all_off.logit_sqnr_db is None
    assert bundled.all_off.accuracy == bundled.float_accuracy
    assert bundled.notes == ()


def test_ranks_go_by_the_sqnr_of_the_logits(both: Sensitivity) -> None:
    for mode in both.modes:
        ranked = both.ranked(mode)
        assert [row.rank for row in ranked] == list(range(1, len(ranked) + 1))
    off = [row.logit_sqnr_db for row in both.ranked("disable")]
    alone = [row.logit_sqnr_db for row in both.ranked("enable")]
    assert None not in (*off, *alone)
    assert off == sorted(off, reverse=True)  # type: ignore[type-var]
    assert alone == sorted(alone)  # type: ignore[type-var]


def test_an_exact_layer_is_the_last_of_those_alone(bundled: Sensitivity) -> None:
    last = bundled.ranked("enable")[-1]  # pixels are whole numbers, and the input's scale is 1
    assert (last.layer, last.exact, last.logit_sqnr_db) == ("input", True, None)


def test_what_is_won_is_the_difference_to_the_quantized_network(both: Sensitivity) -> None:
    assert both.quantized is not None and both.quantized.logit_sqnr_db is not None
    for row in both.ranked("disable"):
        assert row.logit_sqnr_db is not None
        won = row.logit_sqnr_db - both.quantized.logit_sqnr_db
        assert row.sqnr_change_db == pytest.approx(won)
    assert all(row.sqnr_change_db is None for row in both.ranked("enable"))


def test_batch_and_threads_change_nothing(both: Sensitivity, net: Path, float_net: Path) -> None:
    for batch, threads in ((7, 2), (41, 1)):
        result = sensitivity(
            net, PICTURES, float_model=float_net, mode="both", batch=batch, threads=threads
        )
        assert result.rows == both.rows


def test_variants_that_do_not_fit_one_graph_give_the_same(
    both: Sensitivity, net: Path, float_net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_graph, "MOST_NODES", 70)
    result = sensitivity(net, PICTURES, float_model=float_net, mode="both")
    assert result.rows == both.rows


def test_a_model_with_a_fixed_batch_is_filled_up(
    net: Path, float_net: Path, tmp_path: Path
) -> None:
    def fixed(path: Path) -> Path:
        model = onnx.load(path)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 9
        onnx.save(model, tmp_path / path.name)
        return tmp_path / path.name

    by_nine = sensitivity(fixed(net), PICTURES, float_model=fixed(float_net))
    free = sensitivity(net, PICTURES, float_model=float_net)
    assert by_nine.rows == free.rows


def test_images_without_finite_float_scores_are_left_out_of_the_ranking(
    net: Path, float_net: Path
) -> None:
    images = PICTURES.images.copy()
    images[3, 0, 2, 2] = np.nan
    with_nan = with_images(images)
    result = sensitivity(net, with_nan, float_model=float_net)
    others = [place for place in range(len(PICTURES)) if place != 3]
    without = sensitivity(net, PICTURES.select(others), float_model=float_net)
    assert [row.rank for row in result.rows] == [row.rank for row in without.rows]
    assert [row.logit_sqnr_db for row in result.rows] == pytest.approx(
        [row.logit_sqnr_db for row in without.rows]
    )
    assert without.notes == ()
    assert result.notes == (
        f"{float_net.name} gives NaN or infinite scores for 1 of {len(PICTURES)} images, first "
        f"image {PICTURES.indices[3]}; SQNRs are of the others",
    )
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_float_model_without_finite_scores_ranks_nothing(
    net: Path, float_net: Path, tmp_path: Path
) -> None:
    model = onnx.load(float_net)
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 4:
            broken = np.full(list(tensor.dims), np.nan, np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(broken, tensor.name))
    path = tmp_path / "nan.onnx"
    onnx.save(model, path)
    with pytest.raises(BadModelError, match=r"nan\.onnx gives NaN or infinite scores for every"):
        sensitivity(net, PICTURES, float_model=path)


def test_another_float_model_than_the_recorded_one_is_noted(
    quantized: Callable[..., Path], tmp_path: Path
) -> None:
    model = onnx.load(bundled_models()["resnet8"])
    model.doc_string = "another file"
    path = tmp_path / "again.onnx"
    onnx.save(model, path)
    images = load_sample().take(2)
    (note,) = sensitivity(quantized(activations="int8"), images, float_model=path).notes
    assert "says that it was made from another float model than again.onnx" in note
    assert sensitivity(quantized(activations="int8"), images, float_model="resnet8").notes == ()


def test_what_cannot_be_switched_is_said(net: Path, float_net: Path, tmp_path: Path) -> None:
    model = onnx.load(net)
    first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    model.graph.node.remove(first)
    for node in model.graph.node:
        node.input[:] = ["x" if name == first.output[0] else name for name in node.input]
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    path = tmp_path / "takes_int8.onnx"
    onnx.save(model, path)
    integers = np.clip(np.rint(PICTURES.images * 30), -128, 127).astype(np.int8)
    result = sensitivity(path, with_images(integers), float_model=float_net, mode="both")
    (missing,) = result.not_switched
    assert missing.layer == "x" and "comes into the model as int8" in missing.reason
    assert "x" not in {row.layer for row in result.rows}


def test_json_has_what_the_row_has_and_where_it_comes_from(both: Sensitivity) -> None:
    content = json.loads(json.dumps(both.to_dict(), allow_nan=False))
    columns = "layer op_type mode delta interval_95 gained lost logit_sqnr_db rank"
    assert set(columns.split()) <= content["rows"][0].keys()
    provenance = (
        "model digest float_model float_digest execution data data_digest images provenance"
    )
    assert set(provenance.split()) <= content.keys()
    assert content["images"] == 41
    assert content["provenance"]["onnxruntime"]
    assert content["rows"][0]["gained_images"] == list(both.rows[0].gained_images)


def counted(stop_after: int | None = None) -> tuple[Progress, list[tuple[str, int, int]]]:
    seen: list[tuple[str, int, int]] = []

    def progress(what: str, done: int, total: int) -> None:
        seen.append((what, done, total))
        if stop_after is not None and what != "Finding quantizers" and done >= stop_after:
            raise StoppedError("stopped")

    return progress, seen


def test_progress_ends_at_its_total(net: Path, float_net: Path) -> None:
    progress, seen = counted()
    sensitivity(net, PICTURES, float_model=float_net, mode="both", batch=10, progress=progress)
    ends = {what: (done, total) for what, done, total in seen}
    assert ends["Switching layers off"] == ends["Switching layers on"] == (41, 41)


def test_it_stops_when_asked_to(net: Path, float_net: Path) -> None:
    progress, seen = counted(stop_after=10)
    with pytest.raises(StoppedError):
        sensitivity(net, PICTURES, float_model=float_net, batch=5, progress=progress)
    assert seen[-1] == ("Switching layers off", 10, 41)


def refusal(error: type[Exception], *arguments: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        sensitivity(*arguments, progress=silent, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_models_that_do_not_fit_get_one_line(net: Path, float_net: Path, tmp_path: Path) -> None:
    text = refusal(BadModelError, float_net, PICTURES, float_model=float_net)
    assert "branches.onnx is not quantized" in text and "--float" in text
    assert "quantized" in refusal(BadModelError, net, PICTURES, float_model=net)
    torch = refusal(BadModelError, "resnet8-torch", SAMPLE)
    assert "is a PyTorch model; sensitivity reads ONNX files" in torch
    assert "There is no file" in refusal(BadModelError, tmp_path / "no.onnx", PICTURES)
    refusal(BadModelError, net, PICTURES, float_model="resnet8")


def test_images_that_do_not_fit_get_one_line_before_the_long_work(
    net: Path, float_net: Path
) -> None:
    assert "holds no images" in refusal(BadDataError, net, PICTURES._rows(slice(0)))
    labels = replace(PICTURES, targets=PICTURES.labels + 7)
    assert "has labels" in refusal(BadDataError, net, labels, float_model=float_net)
    text = refusal(BadModelError, net, SAMPLE, float_model=float_net)
    assert "takes input" in text


def test_options_that_do_not_fit_get_one_line(net: Path) -> None:
    text = refusal(BadConfigError, net, PICTURES, mode="enable", execution="runtime")
    assert "--mode disable" in text
    refusal(BadConfigError, net, PICTURES, mode="both", execution="runtime")
    assert "at least one image" in refusal(BadConfigError, net, PICTURES, batch=0)
