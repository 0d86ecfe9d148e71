"""`quantscope cure` as a person meets it."""

import json
from pathlib import Path

import pytest
from in_process import refused, run

from quantscope.edit import Editor, SetBits


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled int8 model with weights of 4 bits."""
    path = tmp_path_factory.mktemp("narrow") / "narrow.onnx"
    Editor("resnet8-int8").apply([SetBits("weights", 4)]).save(path)
    return path


FEW = ("--images", 32, "--test-images", 60)


def test_a_cure_says_what_it_brings_and_its_recipe_gives_the_same_file(
    narrow: Path, tmp_path: Path
) -> None:
    made, recipe, again = (tmp_path / name for name in ("a.onnx", "a.json", "b.onnx"))
    done = run("cure", narrow, "--bias-correction", *FEW, "-o", made, "--save-recipe", recipe)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert "narrow.onnx, reference execution, 60 images of cifar10-test-sample" in text
    assert "the cures look at 32 images of cifar10-train-sample" in text
    for line in ("as it is", "with bias correction", "float model", "of the loss is back"):
        assert line in text
    assert "bias correction: 10 edits" in text and "stem.bias: 16 channels" in text
    replayed = run("whatif", narrow, "--recipe", recipe, "--images", 8, "--no-sqnr", "-o", again)
    assert replayed.returncode == 0, replayed.stderr
    assert made.read_bytes() == again.read_bytes()


def test_json_says_the_same(narrow: Path) -> None:
    done = run("cure", narrow, "--bias-correction", *FEW, "--json")
    content = json.loads(done.stdout)
    (step,) = content["steps"]
    assert step["cure"]["kind"] == "bias correction"
    assert len(step["cure"]["edits"]) == len(content["edits"]) == 10
    assert step["added"]["delta"] == step["in_all"]["delta"]
    loss = content["float"]["score"]["value"] - content["base"]["score"]["value"]
    assert step["recovered"] == pytest.approx(step["in_all"]["delta"] / loss)
    before, after = (step["cure"][when][-1]["shift"] for when in ("before", "after"))
    assert after < before


def test_bad_wishes_are_one_line(narrow: Path, tmp_path: Path) -> None:
    assert "No cure is named; give one or more of: --leave-float, --equalization, " in refused(
        "cure", narrow
    )
    same = refused("cure", narrow, "--bias-correction", "--data", "sample", *FEW[:2])
    assert "32 of the 32 images of cifar10-test-sample are among those that scores are of" in same
    alone = refused("cure", narrow, "--bias-correction", "--range-of", "stem")
    assert "--range-of and --range-by go with --best-range" in alone
    float_model = refused("cure", "resnet8", "--bias-correction")
    assert "is not quantized" in float_model or "has no parameters" in float_model
    wrong = refused("cure", narrow, "--bias-correction", "-o", tmp_path / "a.pt2")
    assert "Cured, narrow.onnx is a .onnx file again" in wrong


def test_two_cures_are_told_one_on_top_of_the_other(narrow: Path) -> None:
    done = run(
        *("cure", narrow, "--bias-correction", "--best-range", "--range-of", "head.weight", *FEW)
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    first, second = (
        next(place for place, line in enumerate(lines) if line.startswith(words))
        for words in ("with best range", "and bias correction")
    )
    assert second == first + 1
    assert any(line.startswith("all together: ") for line in lines)


def test_layers_that_are_left_float_are_a_list_that_quantize_takes(
    narrow: Path, tmp_path: Path
) -> None:
    listed, made = tmp_path / "floats.txt", tmp_path / "made.onnx"
    done = run(
        *("cure", narrow, "--leave-float", "2", "--leave-float", "Conv", *FEW),
        *("--save-exclusions", listed),
    )
    assert done.returncode == 0, done.stderr
    assert "2 layers are left float" in done.stdout and "those of 9 that help most" in done.stdout
    remark, *layers = listed.read_text().splitlines()
    assert remark.startswith("# 2 layers are left float") and len(layers) == 2
    done = run(
        "quantize", "resnet8", "-o", made, "--calibration-images", 8, "--exclude-from", listed
    )
    assert done.returncode == 0, done.stderr
    assert f"float: {layers[0]}, {layers[1]}" in " ".join(done.stdout.split())
    listed.write_text("# nothing\n")
    none = refused("quantize", "resnet8", "-o", tmp_path / "b.onnx", "--exclude-from", listed)
    assert f"{listed} names no layer; write one a line" in none
    two = refused("cure", narrow, "--leave-float", "2", "--leave-float", "3")
    assert "--leave-float has two numbers of layers: 2, 3" in two
    bits = refused("cure", narrow, "--more-bits", "8")
    assert "--more-bits is how many bits --leave-float gives" in bits


def test_equalized_layers_are_named_and_the_recipe_gives_the_same_file(tmp_path: Path) -> None:
    made, recipe, again = (tmp_path / name for name in ("a.onnx", "a.json", "b.onnx"))
    done = run(
        *("cure", "resnet8-int8", "--equalization", *FEW),
        *("-o", made, "--save-recipe", recipe),
    )
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "equalization: 6 edits" in text
    assert "without quantizers the outputs change by at most" in text
    assert "stack1.conv1 to stack1.conv2: 16 channels divided by" in text
    assert "stem is left as it is: 2 layers read what stem gives" in text
    replayed = run(
        "whatif", "resnet8-int8", "--recipe", recipe, "--images", 8, "--no-sqnr", "-o", again
    )
    assert replayed.returncode == 0, replayed.stderr
    assert made.read_bytes() == again.read_bytes()
