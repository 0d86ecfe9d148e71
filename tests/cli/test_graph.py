"""`quantscope graph` as a person meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from quantscope.cli import graph
from quantscope.errors import QuantscopeError

app = typer.Typer()
app.command()(graph.command)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def drawn(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, QuantscopeError), result.output
    text = str(result.exception)
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def model(quantized: Callable[..., Path]) -> Path:
    return quantized()


STARTS = {
    "a.svg": b"<?xml",
    "a.png": b"\x89PNG",
    "a.dot": b"digraph",
    "a.HTML": b"<!doctype html>",
}


@pytest.mark.parametrize("name", STARTS)
def test_the_suffix_decides_the_format(model: Path, tmp_path: Path, name: str) -> None:
    text = drawn(model, "-o", tmp_path / name)
    assert text == f"Wrote {tmp_path / name}: 17 nodes, 19 edges\n"
    assert (tmp_path / name).read_bytes().startswith(STARTS[name])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_raw_draws_every_node(model: Path, tmp_path: Path) -> None:
    result = json.loads(drawn(model, "-o", tmp_path / "a.dot", "--raw", "--json"))
    assert result["nodes"] == 67 + 2


def test_a_result_colours_the_layers(model: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "r.json"
    overlay.write_text(json.dumps({"tensors": [{"name": "stem.out", "sqnr_db": 31.5}]}))
    drawn(model, "-o", tmp_path / "a.svg", "--overlay", overlay, "--metric", "sqnr_db")
    assert "sqnr_db 31.5 dB" in (tmp_path / "a.svg").read_text()


def test_a_network_can_be_coloured_by_its_own_cost(model: Path, tmp_path: Path) -> None:
    drawn(model, "-o", tmp_path / "a.svg", "--metric", "weight_bytes")
    assert "37,120 bytes" in (tmp_path / "a.svg").read_text()
    assert "there are: macs, weight_bytes, live_bytes" in refused(
        model, "-o", tmp_path / "b.svg", "--metric", "size"
    )


def test_what_inspect_prints_can_be_drawn(model: Path, tmp_path: Path) -> None:
    from quantscope.model import read_onnx
    from quantscope.report.inspect_json import inspection

    overlay = tmp_path / "r.json"
    overlay.write_text(json.dumps(inspection(read_onnx(model))))
    drawn(model, "-o", tmp_path / "a.svg", "--overlay", overlay, "--metric", "ratio_bits")
    assert "no value (12)" in (tmp_path / "a.svg").read_text()


def test_an_unknown_suffix_is_refused(model: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "a.gif", tmp_path / "a"):
        assert refused(model, "-o", path) == (
            f"--output writes .svg, .png, .dot or .html files; {path} has another suffix"
        )


def test_a_missing_folder_is_refused(model: Path, tmp_path: Path) -> None:
    assert "There is no folder" in refused(model, "-o", tmp_path / "no" / "a.svg")


def test_a_missing_or_cut_model_is_refused(model: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(model.read_bytes()[:5000])
    assert "cut short or damaged" in refused(cut, "-o", tmp_path / "a.svg")
    assert "There is no file" in refused(tmp_path / "none.onnx", "-o", tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


def test_an_overlay_that_is_not_json_is_refused(model: Path, tmp_path: Path) -> None:
    text = refused(model, "-o", tmp_path / "a.svg", "--overlay", model, "--metric", "macs")
    assert text == f"{model} is not JSON (it is not text); give the result of a command's --json"


def test_an_overlay_needs_a_metric_where_there_are_several(model: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "r.json"
    overlay.write_text('[{"layer": "stem", "a": 1, "b": 2}]')
    text = refused(model, "-o", tmp_path / "a.svg", "--overlay", overlay)
    assert text == "Say which column colours, with --metric; there are: a, b"


def test_raw_takes_no_colours(model: Path, tmp_path: Path) -> None:
    text = refused(model, "-o", tmp_path / "a.svg", "--raw", "--metric", "macs")
    assert text == "--overlay and --metric colour layers; --raw draws nodes"


def test_an_existing_drawing_is_kept_when_the_new_one_fails(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text("mine")
    refused(model, "-o", path, "--metric", "nothing")
    assert path.read_text() == "mine"
