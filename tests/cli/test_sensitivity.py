"""`quantscope sensitivity` as a person meets it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from quantscope.cli import sensitivity as module
from quantscope.data import load_sample
from quantscope.errors import QuantscopeError
from quantscope.report import sensitivity_lines, wrap
from quantscope.study.sensitivity.sensitivity import sensitivity

app = typer.Typer()
app.command()(module.command)

MODEL = "resnet8-int8"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, QuantscopeError), result.output
    text = str(result.exception)
    assert "\n" not in text
    return text


def test_the_table_is_ranked_and_says_what_was_measured() -> None:
    lines = printed(MODEL, "--images", 20).splitlines()
    assert lines[0] == (
        "resnet8-int8.onnx against resnet8.onnx, reference execution, "
        "20 images of cifar10-test-sample"
    )
    assert "accuracy: float" in lines[1] and "SQNR of the logits" in lines[1]
    ranked = sensitivity(MODEL, load_sample().take(20)).ranked("disable")
    shown = lines[5:]
    assert [line.split()[1] for line in shown] == [row.layer for row in ranked]
    assert f"{ranked[0].logit_sqnr_db:.2f}" in shown[0]
    bars = [line.count("█") for line in shown]
    assert bars == sorted(bars, reverse=True) and bars[0] == 16


def test_both_modes_are_two_tables() -> None:
    text = printed(MODEL, "--images", 10, "--mode", "both")
    assert text.count("the most sensitive first") == 2
    assert "with all of it off" in text and "the same logits" in text
    assert "exact" in text.splitlines()[-1]  # the input, alone


def test_json_is_one_object() -> None:
    content = json.loads(printed(MODEL, "--images", 10, "--mode", "enable", "--json"))
    assert content["mode"] == "enable"
    assert {row["mode"] for row in content["rows"]} == {"enable"}
    assert content["all_off"] == {
        "accuracy": content["float_accuracy"], "logit_sqnr_db": None, "exact": True,
        "score": content["float_score"],
    }  # fmt: skip


def test_runtime_execution_is_said() -> None:
    text = printed(MODEL, "--images", 10, "--execution", "runtime", "--no-int8-kernels")
    assert "runtime execution" in text


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_the_figure_is_written(tmp_path: Path, name: str, start: bytes) -> None:
    printed(MODEL, "--images", 10, "--figure", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == 1


def test_bad_input_gets_one_line(tmp_path: Path) -> None:
    assert "is not quantized" in refused("resnet8")
    assert "is quantized" in refused(MODEL, "--float", MODEL)
    assert "has no runtime execution" in refused(MODEL, "--mode", "both", "--execution", "runtime")
    assert "choose 1 to 1,000" in refused(MODEL, "--images", 0)
    assert "writes .png or .svg files" in refused(MODEL, "--figure", tmp_path / "a.jpg")
    assert "There is no folder" in refused(MODEL, "--figure", tmp_path / "no" / "a.png")


def test_one_image_is_one_image() -> None:
    text = printed("resnet8-int8", "--images", 1)
    assert "reference execution, 1 image of cifar10-test-sample" in text


@pytest.mark.parametrize("width", [80, 100])
def test_the_ranking_fits_a_terminal(width: int) -> None:
    result = sensitivity(MODEL, load_sample().take(2), mode="both")
    text = [part for line in sensitivity_lines(result, width) for part in wrap(line, width)]
    assert max(map(len, text)) <= width
    assert sum(line.split()[:1] == ["1"] for line in text) == 2
    assert not any(set(line.strip()) == {"█"} for line in text)


def test_pairs_are_a_matrix_of_the_layers_that_are_asked_for(tmp_path: Path) -> None:
    drawn = tmp_path / "pairs.svg"
    some = ["--layer", "stem", "--layer", "stack1.conv1", "--layer", "head"]
    text = printed(MODEL, "--images", 20, "--pairs", *some, "--figure", drawn)
    assert "together beyond alone, in % of the noise of all" in text
    assert "two layers quantized in the float network" in text
    assert drawn.read_text().startswith("<?xml")
    found = json.loads(printed(MODEL, "--images", 20, "--pairs", *some, "--json"))
    assert [(p["first"], p["second"]) for p in found["pairs"]] == [
        ("stem", "stack1.conv1"),
        ("stem", "head"),
        ("stack1.conv1", "head"),
    ]


def test_shares_add_up_to_the_loss() -> None:
    found = json.loads(
        printed(
            MODEL, "--images", 20, "--shapley", 2, "--layer", "stem", "--layer", "head", "--json"
        )
    )
    assert found["is_exact"] and found["orders"] == 2
    total = sum(share["noise"]["value"] for share in found["shares"])
    assert total == pytest.approx(found["noise"]["value"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pairs", "--shapley", 3], "--pairs and --shapley are two questions; ask one at a time"),
        (["--layer", "stem"], "--layer goes with --pairs or --shapley; a ranking is of all layers"),
        (["--pairs", "--mode", "both"], "--pairs takes --mode enable or --mode disable, one at a"),
        (["--shapley", 3, "--mode", "enable"], "--shapley quantizes the layers in all orders, so"),
        (["--shapley", 3, "--execution", "runtime"], "--shapley has no runtime execution: "),
    ],
)
def test_questions_that_do_not_go_together_are_refused(options: list[object], told: str) -> None:
    assert refused(MODEL, "--images", 5, *options).startswith(told)
