"""Two quantized versions of one float network, matched through what they stand for."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import Residual, residual
from tiny_qdq import images_of

from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.report.compare.html import _versions
from quantscope.report.compare.side_by_side_text import side_by_side_lines, side_by_side_tables
from quantscope.run.compare.compare import compare
from quantscope.run.compare.side_by_side import SideBySide, compare_with

SAMPLE = load_sample().take(4)
PICTURES = images_of(np.random.default_rng(2).normal(0, 1, (5, 3, 5, 7)).astype(np.float32))


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def files(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("net")
    return net.save_quantized(folder), net.save_float(folder)


@pytest.fixture(scope="module")
def versions(quantized: Callable[..., Path]) -> SideBySide:
    first = quantized(activations="int8", per_channel=True)
    second = quantized(activations="uint8", per_channel=False)
    return compare_with(first, second, SAMPLE, float_model="resnet8", threads=1)


def without_branch(files: tuple[Path, Path], folder: Path) -> Path:
    """The quantized network with the branch's output left in float, and other names."""
    proto = onnx.load(files[0])
    gone = {"branch_q", "branch_dq"}
    kept = [node for node in proto.graph.node if not gone & set(node.output)]
    for node in kept:
        node.input[:] = ["branch" if name == "branch_dq" else name for name in node.input]
    renamed = {"conv": "c", "conv_q": "cq", "conv_dq": "cdq"}
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    onnx.save(proto, folder / "other.onnx")
    return folder / "other.onnx"


def test_every_tensor_of_both_is_in_a_row_or_listed(versions: SideBySide) -> None:
    assert versions.only_in_one == ()
    assert len(versions.rows) == 36
    by_name = {row.float_name: row for row in versions.rows}
    stem = by_name["stem.relu.out"]
    assert stem.first.params.dtype == "int8" and stem.second.params.dtype == "uint8"
    assert not stem.same_parameters
    weight = by_name["stem.weight"]
    assert not weight.first.params.is_per_tensor and weight.second.params.is_per_tensor


def test_rows_hold_what_two_comparisons_say(versions: SideBySide) -> None:
    for comparison, which in ((versions.first, "first"), (versions.second, "second")):
        for row in versions.rows:
            tensor = getattr(row, which)
            assert tensor.error is comparison[tensor.name]
            assert tensor.error.float_name == row.float_name
    row = next(row for row in versions.rows if row.float_name == "stack1.relu1.out")
    assert row.first.sqnr_db is not None and row.second.sqnr_db is not None
    assert row.sqnr_change_db == row.second.sqnr_db - row.first.sqnr_db
    exact = next(row for row in versions.rows if row.float_name == "input")
    assert exact.sqnr_change_db is None


def test_names_do_not_matter_and_what_one_lacks_is_listed(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    other = without_branch(files, tmp_path)
    found = compare_with(files[0], other, PICTURES, float_model=files[1])
    matched = {row.float_name for row in found.rows if row.role == "activation"}
    assert matched == {"x", "conv", "add", "pool", "head"}
    (missing,) = found.only_in_one
    assert (missing.version, missing.tensor.name) == ("first", "branch.out")
    assert missing.reason == "other.onnx does not quantize branch"
    assert missing.tensor.sqnr_db is not None
    (turned,) = compare_with(other, files[0], PICTURES, float_model=files[1]).only_in_one
    assert turned.version == "second" and turned.reason == "other.onnx does not quantize branch"


def test_a_tensor_quantized_twice_is_matched_once(files: tuple[Path, Path], tmp_path: Path) -> None:
    """A dedicated pair of quantizers for one reader, with parameters of its own."""
    proto = onnx.load(files[0])
    scale = onnx.numpy_helper.from_array(np.float32(0.02), "again_scale")
    proto.graph.initializer.append(scale)
    place = next(n for n, node in enumerate(proto.graph.node) if node.name == "branch")
    make = onnx.helper.make_node
    proto.graph.node[place].input[0] = "again_dq"
    proto.graph.node.insert(
        place, make("QuantizeLinear", ["conv", "again_scale", "conv_zero"], ["again_q"])
    )
    proto.graph.node.insert(
        place + 1, make("DequantizeLinear", ["again_q", "again_scale", "conv_zero"], ["again_dq"])
    )
    onnx.save(proto, tmp_path / "twice.onnx")
    found = compare_with(files[0], tmp_path / "twice.onnx", PICTURES, float_model=files[1])
    (extra,) = found.only_in_one
    assert extra.version == "second" and extra.float_name == "conv"
    assert extra.reason == "quantized.onnx quantizes conv 1 times, not 2"


def test_the_float_model_is_known_from_either_version(quantized: Callable[..., Path]) -> None:
    made = quantized(activations="uint8")
    found = compare_with("resnet8-int8", made, SAMPLE.take(1))
    assert found.first.float_digest == found.second.float_digest


def test_runtime_execution_is_that_of_both(quantized: Callable[..., Path]) -> None:
    found = compare_with(
        quantized(activations="uint8"), quantized(activations="uint8", format="qoperator"),
        SAMPLE.take(2), float_model="resnet8", execution="runtime",
    )  # fmt: skip
    assert found.first.execution == found.second.execution == "runtime"
    assert {row.float_name for row in found.rows} >= {"stem.relu.out", "logits"}


def test_json_holds_parameters_and_errors_of_both(versions: SideBySide) -> None:
    found = json.loads(json.dumps(versions.to_dict(channels=True), allow_nan=False))
    assert found["schema_version"] == 2
    assert found["first"]["model"] != found["second"]["model"]
    row = next(row for row in found["rows"] if row["float_name"] == "stem.weight")
    assert len(row["first"]["params"]["scale"]) == 16
    assert isinstance(row["second"]["params"]["scale"], float)
    assert row["second"]["error"]["sqnr_db"] == pytest.approx(
        row["first"]["error"]["sqnr_db"] + row["sqnr_change_db"]
    )


def test_the_table_shows_parameters_error_and_change(versions: SideBySide) -> None:
    activations, constants = side_by_side_tables(versions)
    assert [column.heading for column in activations.columns] == [
        *("float tensor", "1: parameters", "SQNR", "local"),
        *("2: parameters", "SQNR", "local", "SQNR 2 − 1"),
    ]
    at = activations.column("float tensor").index("stack1.relu1.out")
    row = next(row for row in versions.rows if row.float_name == "stack1.relu1.out")
    shown = activations.rows[at]
    assert shown[1].startswith("int8 s ") and shown[4].startswith("uint8 s ")
    assert shown[2] == f"{row.first.sqnr_db:.1f}" and shown[5] == f"{row.second.sqnr_db:.1f}"
    assert shown[7] == f"{row.sqnr_change_db:+.1f}".replace("-0.0", "+0.0")
    assert activations.rows[0][2] == "exact" and activations.rows[0][7] == "–"
    assert " … " in constants.column("1: parameters")[0]
    text = "\n".join(side_by_side_lines(versions, 120))
    assert "1: model" in text and "4 images of cifar10-test-sample" in text


def test_the_page_lists_what_matches_and_what_only_one_has(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    other = without_branch(files, tmp_path)
    found = compare_with(files[0], other, PICTURES, float_model=files[1])
    text = "".join(_versions(found.first, found.second, None, None, found))
    shown = re.findall(r"<tr[^>]*><t[hd][^>]*>([a-z]+(?:\.[a-z]+)?)<", text)
    assert {"x", "conv.out", "add.out", "conv.weight"} <= set(shown)
    assert "branch.out" not in shown
    assert "<li>A: branch.out: other.onnx does not quantize branch</li>" in text


def test_bad_pairs_are_refused_in_one_line(
    files: tuple[Path, Path], tmp_path: Path, random_resnet8: Path
) -> None:
    with pytest.raises(BadModelError, match=r"resnet8.onnx and quantized.onnx do not belong"):
        compare_with("resnet8-int8", files[0], PICTURES, float_model="resnet8")
    with pytest.raises(BadConfigError, match=r"are two float models of one kind; give one that"):
        compare_with(
            "resnet8-int8", "resnet8-uint8", SAMPLE, float_model="resnet8",
            other_float_model=random_resnet8,
        )  # fmt: skip
    with pytest.raises(BadModelError, match=r"resnet8.onnx is not quantized: it has no tensor"):
        compare_with("resnet8-int8", "resnet8", SAMPLE)
    with pytest.raises(BadDataError, match="holds no images"):
        compare_with(files[0], files[0], images_of(PICTURES.images[:0]), float_model=files[1])


def test_progress_says_which_of_the_two(files: tuple[Path, Path]) -> None:
    seen: list[str] = []

    def note(what: str, done: int, total: int) -> None:
        seen.append(what)

    compare_with(files[0], files[0], PICTURES, float_model=files[1], progress=note)
    assert list(dict.fromkeys(seen)) == ["Comparing the first", "Comparing the second"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from quantscope.model import bundled_models
    from quantscope.quantize import PtqConfig, quantize_torch

    path = tmp_path_factory.mktemp("program") / "program.pt2"
    config = PtqConfig(framework="torch", calibration_images=16)
    quantize_torch(bundled_models()["resnet8-torch"], path, config)
    return path


@pytest.mark.slow
def test_a_program_stands_beside_an_onnx_file(program: Path) -> None:
    found = compare_with("resnet8-int8", program, SAMPLE, threads=1)
    rows: dict[str, Any] = {row.float_name: row for row in found.rows}
    assert {"input", "stem.relu.out", "stem.weight", "pool.out"} <= rows.keys()
    alone = compare(program, SAMPLE, threads=1)
    for row in found.rows:
        assert row.second.sqnr_db == alone[row.second.name].sqnr_db
    only = {each.tensor.name: each.reason for each in found.only_in_one if each.version == "first"}
    assert only["stem.bias"] == "program.pt2 does not quantize stem.bias"
