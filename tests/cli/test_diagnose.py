"""`quantscope diagnose` as a person meets it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from quantscope.cli import diagnose as module
from quantscope.edit import Editor, SetRange
from quantscope.errors import QuantscopeError

app = typer.Typer()
app.command()(module.command)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


@pytest.fixture(scope="module")
def clipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled int8 model with one range cut to a tenth."""
    path = tmp_path_factory.mktemp("clipped") / "clipped.onnx"
    Editor("resnet8-int8").apply([SetRange("stack3.add.out", 0, 2)]).save(path)
    return path


def test_a_diagnosis_reads_from_the_account_to_what_was_tried(clipped: Path) -> None:
    text = printed(clipped, "--images", 200, "--try")
    assert "clipped.onnx against resnet8.onnx, reference execution, 200 images" in text
    assert "calibrated with cifar10-train-sample, 256 images, seed 0" in text
    for line in ("with all weights float", "with all activations float", "kernels of this CPU"):
        assert line in text
    assert "1 finding" in text and "1. Clipping costs more than it saves in 1 tensor" in text
    assert "(docs/findings.md#clipping)" in text
    assert "→ widen 1 range to all values of the calibration samples: +" in text
    assert "% of the loss" in text


def test_json_is_one_object_that_says_the_same(clipped: Path) -> None:
    content = json.loads(printed(clipped, "--images", 100, "--json"))
    assert content["was_tried"] is False and content["together"] is None
    (finding,) = content["findings"]
    assert finding["kind"] == "clipping" and finding["tensors"] == ["stack3.add.out"]
    account = content["account"]
    assert account["float"]["value"] - account["quantized"]["value"] == pytest.approx(
        account["loss"]["delta"]
    )
    assert finding["cost"]["samples"] == 100 and finding["attempts"] == []


def test_a_float_model_is_one_line() -> None:
    result = run("resnet8", "--images", 50)
    assert isinstance(result.exception, QuantscopeError)
    assert str(result.exception) == (
        "resnet8.onnx is a float model: nothing in it is quantized, so there is nothing to "
        "diagnose; quantize it first: quantscope quantize resnet8 -o OUT.onnx"
    )


def test_a_page_is_written_that_says_the_same(clipped: Path, tmp_path: Path) -> None:
    page = tmp_path / "diagnosis.html"
    text = printed(clipped, "--images", 100, "--try", "--html", page)
    assert text.rstrip().endswith("diagnosis.html")
    content = page.read_text()
    for words in (
        "Diagnosis of clipped.onnx",
        "Clipping costs more than it saves in 1 tensor",
        "widen 1 range to all values of the calibration samples",
        "docs/findings.md#clipping",
        "with all activations float",
        "sha256",
    ):
        assert words in content, words
    assert "http://" not in content.replace("http://www.w3.org", "") and "src=" not in content


def test_too_few_samples_say_how_many_would_do() -> None:
    result = run("resnet8-int8", "--images", 10)
    assert str(result.exception).startswith("10 images of cifar10-test-sample say too little")
    assert "32 would do for a large loss, 1,000 for one of 2 points" in str(result.exception)
