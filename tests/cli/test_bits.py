"""`quantscope bits` as a person meets it."""

import json
from pathlib import Path

import pytest
from in_process import refused, run

from quantscope.cli import bits as bits_command
from quantscope.cli.bits import read_widths
from quantscope.data import load_sample
from quantscope.edit import Editor, Recipe
from quantscope.errors import BadConfigError
from quantscope.run import evaluate


def test_the_map_is_shown_drawn_and_given_as_json(tmp_path: Path) -> None:
    figure = tmp_path / "map.png"
    words = ("bits", "resnet8-int8", "--weights", "4", "--activations", "8", "--images", 20)
    shown = run(*words, "--figure", figure)
    assert shown.returncode == 0, shown.stderr
    assert "top-1 accuracy, in %: bits of the weights down" in shown.stdout
    assert "weights: 4 bits 38.7 kB, float 309.4 kB" in shown.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
    found = json.loads(run(*words, "--json").stdout)
    assert [cell["label"] for cell in found["cells"]] == [
        "W4A8",
        "W4Afloat",
        "WfloatA8",
        "WfloatAfloat",
    ]
    assert (found["samples"], found["unit"], found["execution"]) == (20, "share", "reference")


def test_each_tensor_alone_is_a_table_and_a_figure(tmp_path: Path) -> None:
    words = ("bits", "resnet8-int8", "--layers", "--weights", "4", "--images", 8)
    shown = run(*words, "--figure", tmp_path / "curves.svg")
    assert shown.returncode == 0, shown.stderr
    assert "one tensor at a time with other bits" in shown.stdout
    assert "stack3.conv1.weight" in shown.stdout and "stack3.conv1.out" in shown.stdout
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")


def test_a_walk_leaves_a_recipe_of_each_point(tmp_path: Path) -> None:
    words = ("bits", "resnet8-int8", "--frontier", "size", "--weights", "4,8", "--images", 8)
    shown = run(*words, "--recipes", tmp_path / "walk")
    assert shown.returncode == 0, shown.stderr
    assert "narrowed one tensor at a time" in shown.stdout
    recipes = sorted((tmp_path / "walk").iterdir())
    assert [path.name for path in recipes[:2]] == ["step-00.json", "step-01.json"]
    assert "walk is not an empty folder; give a new one for the recipes" in refused(
        *words, "--recipes", tmp_path / "walk"
    )
    again = run("whatif", "resnet8-int8", "--recipe", recipes[1], "--images", 8, "--no-sqnr")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("text", "widths"),
    [("2-4", [2, 3, 4]), ("8", [8]), ("4, 8,16", [4, 8, 16]), ("2-3,8", [2, 3, 8])],
)
def test_widths_are_lists_and_ranges(text: str, widths: list[int]) -> None:
    assert read_widths(text) == widths


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8-2", "The widths 8-2 are out of order; give 2-8"),
        ("four", "'four' is no list of widths; give some such as 2-8 or 4,8,16"),
        ("2-", "'2-' is no list of widths"),
    ],
)
def test_what_are_no_widths_is_said(text: str, why: str) -> None:
    with pytest.raises(BadConfigError, match=why):
        read_widths(text)


def test_a_width_that_nothing_has_is_one_line() -> None:
    text = refused("bits", "resnet8-int8", "--weights", "12", "--images", 4)
    assert "12 bits for weights are none of the widths 2 to 8 and 16" in text


def test_a_point_of_the_walk_becomes_a_model_and_its_recipe(tmp_path: Path) -> None:
    model, recipe = tmp_path / "mixed.onnx", tmp_path / "mixed.json"
    walk = ("bits", "resnet8-int8", "--frontier", "size", "--weights", "4,8", "--images", 20)
    shown = run(*walk, "--point", 3, "-o", model, "--save-recipe", recipe, "--json")
    assert shown.returncode == 0, shown.stderr
    point = json.loads(shown.stdout)["points"][3]
    assert evaluate(model, load_sample().take(20), execution="reference").accuracy == point["score"]
    weights = {t.name: t.params.bits for t in Editor(model).network.tensors if t.role == "weight"}
    assert weights == {name: bits for name, bits in point["bits"].items() if name in weights}
    assert sorted(weights.values())[:4] == [4, 4, 4, 8]
    kept = Recipe.load(recipe)
    assert Editor("resnet8-int8").apply(kept.edits).proto.graph == Editor(model).base.graph


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--point", 3), "--point is a step of a walk; give --frontier size or compute too"),
        (("-o", "x.onnx"), "-o writes a point of a --frontier; give its --point N too"),
        (("--frontier", "size", "--point", 1), "--point writes a model or a recipe; give -o or"),
        (
            ("--frontier", "size", "--point", -1, "-o", "x.onnx"),
            "--point is a step of the walk, from 0 on, not -1",
        ),
        (("--weights", "8-2"), "The widths 8-2 are out of order; give 2-8"),
        (("--weights", "1-8"), "1 bits for weights are none of the widths 2 to 8 and 16"),
        (("--activations", "9"), "9 bits for activations are none of the widths 2 to 8 and 16"),
        (
            ("--calibration-data", "x.npz"),
            "resnet8-int8.onnx is quantized already, and --range keep leaves its ranges",
        ),
        (
            ("--range", "best", "--calibration-data", "sample"),
            "--calibration-data sample names test images, which must not choose ranges",
        ),
    ],
)
def test_what_cannot_be_is_one_line_before_any_work(words: tuple[object, ...], text: str) -> None:
    assert text in refused("bits", "resnet8-int8", "--images", 4, *words)


def test_what_takes_long_is_said_before_and_runs_with_yes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bits_command, "MOST_SECONDS", 0)
    words = ("bits", "resnet8-int8", "--weights", 8, "--activations", 8, "--images", 4)
    assert "4 networks on 4 samples each take about 0 minutes here; give fewer widths or" in (
        refused(*words)
    )
    assert run(*words, "--yes").returncode == 0


def test_ranges_chosen_anew_are_said(tmp_path: Path) -> None:
    words = ("--weights", 4, "--activations", 4, "--images", 8, "--range", "best")
    shown = run("bits", "resnet8", "--calibration-images", 16, *words)
    assert shown.returncode == 0, shown.stderr
    assert "ranges of least error at each width, by cifar10-train-sample, 16 images" in shown.stdout
