"""Every output of a model, for all samples: as rows where it has them, else left out by name."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from quantscope.data import Samples
from quantscope.errors import BadDataError, BadModelError
from quantscope.run import evaluate, gather_outputs, open_runnable, outputs
from small_networks import FORMS, NAMES, feeds, quantized

ROWS = 5
RNG = np.random.default_rng(11)


def samples(name: str, rows: int = ROWS, labels: np.ndarray | None = None) -> Samples:
    parts = [feeds(name, 1, seed=seed) for seed in range(rows)]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Samples.from_arrays(f"{name} rows", arrays, labels)


def graph(path: Path, nodes: list[onnx.NodeProto], ends: list[str], batch: int | str) -> Path:
    kinds = {"places": TensorProto.INT64}
    made = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 4])],
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None)
            for name in ends
        ],
        [helper.make_tensor("two", TensorProto.INT64, [1], [2])],
    )
    imports = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(made, opset_imports=imports, ir_version=9).SerializeToString()
    )
    return path


SUM = helper.make_node("ReduceSum", ["x"], ["all"], keepdims=0)
ROW_SUMS = helper.make_node("ReduceSum", ["x", "two"], ["rows"], keepdims=0)
PLACES = helper.make_node("NonZero", ["x"], ["places"])
DATA = Samples.from_arrays("rows", {"x": RNG.normal(size=(ROWS, 3, 4)).astype(np.float32)})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_every_network_is_evaluated_in_both_executions(
    name: str, form: str, tmp_path: Path
) -> None:
    path, rows = quantized(name, form, tmp_path), samples(name)
    for execution in ("reference", "runtime"):
        found = evaluate(path, rows, execution=execution)
        expected = {"mobile": "agreement", "shuffle": "agreement", "bytes": "agreement"}
        kind = "top-1 agreement" if name in expected else "SQNR"
        assert found.score.measure.startswith(kind)
        assert found.against_float is not None and found.against_float.is_stand_in
        assert found.against_float.model == f"{path.name} with every quantizer off"
        assert all(len(array) == ROWS for array in found.outputs.values())
        assert not found.left_out
        assert all(each.sqnr_db and each.sqnr_db > 15 for each in found.against_float.outputs)
        assert found.to_dict()["accuracy"] is None


def test_outputs_are_those_of_running_the_rows_one_by_one(tmp_path: Path) -> None:
    runnable = open_runnable(quantized("encoder", "qdq-uint8", tmp_path), execution="reference")
    rows = samples("encoder")
    found = gather_outputs(runnable, rows, batch=2)
    assert list(found.outputs) == ["last_hidden_state", "pooler_output"]
    for row in range(ROWS):
        alone = runnable.run({name: array[row : row + 1] for name, array in rows.arrays.items()})
        for name, array in found.outputs.items():
            np.testing.assert_allclose(array[row], alone[name][0], rtol=1e-5, atol=1e-5)


def test_an_output_without_rows_is_left_out_by_name(tmp_path: Path) -> None:
    path = graph(tmp_path / "sum.onnx", [SUM, ROW_SUMS], ["all", "rows"], "N")
    found = gather_outputs(open_runnable(path), DATA)
    np.testing.assert_allclose(found.outputs["rows"], DATA.images.sum(axis=2), rtol=1e-5)
    assert dict(found.left_out) == {"all": "its shape is [] for 5 rows"}


def test_where_rows_go_in_one_by_one_a_whole_output_belongs_to_its_row(tmp_path: Path) -> None:
    for batch in (1, "N"):  # with an open batch, since no output counts rows
        path = graph(tmp_path / f"{batch}.onnx", [SUM], ["all"], batch)
        found = gather_outputs(open_runnable(path), DATA)
        np.testing.assert_allclose(found.outputs["all"], DATA.images.sum(axis=(1, 2)), rtol=1e-5)


def test_an_output_that_has_another_shape_each_time_is_left_out(tmp_path: Path) -> None:
    path = graph(tmp_path / "places.onnx", [PLACES, ROW_SUMS], ["places", "rows"], 1)
    arrays = {"x": (DATA.images > 0.3).astype(np.float32)}
    found = gather_outputs(open_runnable(path), Samples.from_arrays("0 or 1", arrays))
    assert list(found.outputs) == ["rows"]
    assert found.left_out["places"].startswith("its rows have different shapes, [3, ")


def test_a_model_without_an_output_of_one_shape_says_so(tmp_path: Path) -> None:
    path = graph(tmp_path / "places.onnx", [PLACES], ["places"], "N")
    arrays = {"x": (DATA.images > 0.3).astype(np.float32)}
    message = r"^No output of places\.onnx has a row for each sample \(places: its rows have diff"
    with pytest.raises(BadModelError, match=message):
        gather_outputs(open_runnable(path), Samples.from_arrays("0 or 1", arrays))


def test_large_outputs_lie_in_a_file_and_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runnable, rows = open_runnable(quantized("unet", "qdq-uint8", tmp_path)), samples("unet")
    here = gather_outputs(runnable, rows).outputs["mask"]
    monkeypatch.setattr(outputs, "MOST_BYTES_IN_MEMORY", 1000)
    there = gather_outputs(runnable, rows).outputs["mask"]
    assert isinstance(there, np.memmap) and not isinstance(here, np.memmap)
    np.testing.assert_array_equal(here, there)


def test_outputs_that_fit_nowhere_are_said_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "MOST_BYTES_IN_MEMORY", 1000)
    monkeypatch.setattr(outputs, "free_disk", lambda: 2000)
    runnable = open_runnable(quantized("unet", "qdq-uint8", tmp_path))
    with pytest.raises(BadDataError, match=r"outputs of unet.* for 5 samples take .* --images"):
        gather_outputs(runnable, samples("unet"))


def test_a_float_model_without_labels_has_outputs_and_no_score(tmp_path: Path) -> None:
    path = graph(tmp_path / "sum.onnx", [ROW_SUMS], ["rows"], "N")
    found = evaluate(path, DATA)
    assert found.scored is None
    assert "is a float model" in found.no_score and "quantscope quantize" in found.no_score
    (facts,) = found.output_facts
    assert (facts["name"], facts["shape"]) == ("rows", [3])
    assert facts["lowest"] == pytest.approx(DATA.images.sum(axis=2).min(), rel=1e-6)
    with pytest.raises(BadDataError, match=r"^sum\.onnx has no score: "):
        _ = found.score


def test_random_rows_give_no_accuracy(tmp_path: Path) -> None:
    from dataclasses import replace

    path = quantized("bytes", "qdq-uint8", tmp_path)
    rows = replace(samples("bytes", labels=np.arange(ROWS) % 4), is_random=True)
    found = evaluate(path, rows)
    assert found.score.measure == "top-1 agreement with the float model"
    assert not found.tells_classes
    with pytest.raises(BadDataError, match="are made-up rows: nothing is right or wrong there"):
        evaluate(path, rows, measure="top1")
