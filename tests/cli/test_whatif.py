"""`quantscope whatif` as a person meets it."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import own_process
from in_process import refused, run

from quantscope.data import load_sample
from quantscope.edit import Editor, Recipe, SetBits, SetScale, parse_off
from quantscope.model import bundled_models

SCALE = ("--set", "stack2.conv1.out.scale=x3")


def answered(*arguments: object) -> str:
    done = run("whatif", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_answer_is_short_and_clear() -> None:
    text = answered("resnet8-int8", *SCALE, "--off", "stack3.shortcut", "--images", 60)
    head, first, second, *rest = text.splitlines()
    assert head == (
        "resnet8-int8.onnx with 2 edits, reference execution, 60 images of cifar10-test-sample"
    )
    assert (first, second) == (
        "  scale of stack2.conv1.out times 3",
        "  stack3.shortcut not quantized",
    )
    for start in ("edited ", "original ", "float ", "edited against original: "):
        assert any(line.startswith(start) for line in rest), start
    assert ["stack2.conv2.bias", "bias", "follows"] in [line.split()[:3] for line in rest]
    assert "kernels that ship, before and now" in text
    assert "the largest loss is" in text
    assert ["stack3.shortcut.out", "edited"] in [line.split()[:2] for line in rest]


def test_a_folded_relu_is_warned_about() -> None:
    text = answered("resnet8-uint8", "--set", "stem.out.zero_point=30", "--images", 30)
    assert "! stem.out would let negative values through" in text


def test_what_changes_nothing_is_said() -> None:
    text = answered("resnet8-uint8", "--set", "stem.out.scale=x1", "--images", 30, "--no-sqnr")
    assert "changes nothing at the output" in text


def test_json_is_one_object_and_the_model_gives_those_scores(tmp_path: Path) -> None:
    output, recipe = tmp_path / "edited.onnx", tmp_path / "recipe.json"
    text = answered(
        *("resnet8-uint8", *SCALE, "--range", "stack1.add.out=0,4", "--images", 40, "--json"),
        *("-o", output, "--save-recipe", recipe, "--note", "what I found"),
    )
    found = json.loads(text)
    assert found["output"]["sha256"] == found["evaluation"]["digest"]
    assert found["sqnr"]["downstream"][0]["name"] == "stack1.add.out"
    assert found["not_applied"] == []
    onnx.checker.check_model(onnx.load(output), full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(output, options)
    images = load_sample().take(40)
    (scores,) = session.run(None, {"input": images.images.astype(np.float32)})
    assert (scores.argmax(axis=1) == images.labels).sum() == found["evaluation"]["correct"]
    kept = Recipe.load(recipe)
    assert (kept.note, kept.base_model) == ("what I found", "resnet8-uint8.onnx")
    assert kept.edits[0] == SetScale("stack2.conv1.out", factor=3.0)
    assert kept.effect is not None
    assert kept.effect["evaluation"]["accuracy"] == found["evaluation"]["accuracy"]


def test_a_recipe_replays_to_the_same_bytes(tmp_path: Path) -> None:
    first, second, recipe = (tmp_path / n for n in ("a.onnx", "b.onnx", "r.json"))
    few = ("--images", 10, "--no-sqnr")
    answered("resnet8-int8", *SCALE, *few, "-o", first, "--save-recipe", recipe)
    answered("resnet8-int8", "--recipe", recipe, *few, "-o", second)
    assert first.read_bytes() == second.read_bytes()


def test_another_model_is_refused_unless_told(tmp_path: Path) -> None:
    recipe = tmp_path / "r.json"
    digest = Editor("resnet8-int8").model.digest
    edits = (SetScale("stem.out", factor=1.5), parse_off("nowhere"))
    Recipe(base_digest=digest, edits=edits, base_model="resnet8-int8").save(recipe)
    line = refused("whatif", "resnet8-uint8", "--recipe", recipe, "--images", 10)
    assert f"The recipe is for resnet8-int8 ({digest[:12]})" in line and "--other-model" in line
    text = answered(
        *("resnet8-uint8", "--recipe", recipe, "--other-model", "--images", 10, "--no-sqnr")
    )
    assert "resnet8-uint8.onnx with 1 edit," in text
    assert "not applied\n  nowhere not quantized: No layer or quantized tensor 'nowhere'" in text


def test_a_recipe_of_which_nothing_fits_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "r.json"
    edits = (SetScale("nothing", factor=1.5), parse_off("nowhere"))
    Recipe(base_digest="0" * 64, edits=edits, base_model="other").save(recipe)
    line = refused("whatif", "resnet8-uint8", "--recipe", recipe, "--other-model", "--images", 10)
    assert line.startswith(
        "quantscope: None of the 2 edits of the recipe can be applied to resnet8-uint8.onnx: scale "
        "of nothing times 1.5 (No quantized tensor 'nothing' in resnet8-uint8.onnx); "
    )


def test_guided_recipes_go_by_their_names() -> None:
    text = answered("resnet8-int8", "--recipe", "break-a-folded-relu", "--images", 40, "--no-sqnr")
    assert "edited against original: -" in text


def test_bad_input_gets_one_line(tmp_path: Path) -> None:
    model = ("whatif", "resnet8-uint8")
    assert "Nothing is to be changed" in refused(*model)
    assert "closest: stem.out" in refused(*model, "--set", "stem.oot.scale=2", "--images", 5)
    assert "is not something to set" in refused(*model, "--set", "stem.out=2")
    assert "There is no recipe nowhere" in refused(*model, "--recipe", "nowhere")
    assert "is not quantized" in refused("whatif", "resnet8", *SCALE)
    assert "resnet8.safetensors is not quantized" in refused("whatif", "resnet8-torch", *SCALE)
    assert "has another suffix" in refused(*model, *SCALE, "-o", tmp_path / "x.tflite")
    line = refused(*model, *SCALE, "-o", tmp_path / "x.pt2")
    assert "Edited, resnet8-uint8.onnx is a .onnx file again;" in line
    assert "There is no folder" in refused(*model, *SCALE, "-o", tmp_path / "no" / "x.onnx")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "is not JSON" in refused(*model, "--recipe", broken)


def test_the_model_itself_is_never_written_to(tmp_path: Path) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(bundled_models()["resnet8-uint8"].read_bytes())
    before = path.read_bytes()
    for options in ((), ("--force",)):
        line = refused("whatif", path, "--float", "resnet8", *SCALE, "-o", path, *options)
        assert "is a file that is read; give another name to write to" in line
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_execution_is_named() -> None:
    few = ("--images", 20, "--no-sqnr", "--execution", "runtime")
    assert "runtime execution, 20 images" in answered("resnet8-uint8", *SCALE, *few)


def test_a_program_is_asked_as_an_onnx_model_is(resnet8_program: Path, tmp_path: Path) -> None:
    first, second, recipe = (tmp_path / n for n in ("a.pt2", "b.pt2", "r.json"))
    edits = ("--set", "stem.relu.out.scale=x3", "--off", "stack3.conv1", "--images", 20)
    text = answered(resnet8_program, *edits)
    assert text.startswith("resnet8.pt2 with 2 edits, reference execution, 20 images of ")
    assert "edited against float: " in text and "SQNR downstream in dB" in text
    found = json.loads(
        answered(resnet8_program, *edits, "--json", "-o", first, "--save-recipe", recipe)
    )
    assert found["output"]["sha256"] == found["evaluation"]["digest"]
    assert found["sqnr"]["downstream"][0]["name"] == "stem.relu.out"
    assert found["kernels_changed"] == []
    again = json.loads(run("evaluate", first, "--images", 20, "--json").stdout)
    assert again["confusion"] == found["evaluation"]["confusion"]
    replayed = (resnet8_program, "--recipe", recipe, "--images", 5, "--no-sqnr", "-o", second)
    answered(*replayed)
    assert first.read_bytes() == second.read_bytes()
    line = refused("whatif", first, "--recipe", recipe, "--images", 5)
    assert "The recipe is for resnet8.pt2" in line and "--other-model" in line


def test_what_a_program_has_not_gets_one_line(resnet8_program: Path, tmp_path: Path) -> None:
    model = ("whatif", resnet8_program, "--set", "stem.relu.out.scale=x3", "--images", 5)
    line = refused(*model, "--execution", "runtime")
    assert "resnet8.pt2 is a PyTorch model, which has no runtime execution here" in line
    assert "int8 kernels are a setting of onnxruntime" in refused(*model, "--int8-kernels")
    line = refused(*model, "-o", tmp_path / "x.onnx")
    assert "Edited, resnet8.pt2 is a .pt2 file again" in line
    assert "is no program or weights of PyTorch" in refused(*model, "--float", "resnet8")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['torch'] = None\nsys.modules['torchao'] = None\n"
    )
    line = own_process.refused(*model, first=tmp_path)
    assert "PyTorch is needed to run resnet8.pt2" in line and "pip install" in line


def test_bits_over_the_best_range_are_seen_on_training_images_and_kept_as_numbers(
    tmp_path: Path,
) -> None:
    recipe = tmp_path / "recipe.json"
    text = answered(
        *("resnet8-int8", "--bits", "stem=4", "--range", "best", "--images", 20, "--no-sqnr"),
        *("--save-recipe", recipe),
    )
    assert "stem.weight with 4 bits over the best range" in text
    weight, out = Recipe.load(recipe).edits
    assert weight == SetBits("stem.weight", 4, "best")
    assert isinstance(out, SetBits) and isinstance(out.range, tuple) and 3 < out.range[1] < 12
    again = answered("resnet8-int8", "--recipe", recipe, "--images", 20, "--no-sqnr")
    assert f"stem.out with 4 bits over [0, {out.range[1]:g}]" in again


def test_a_rule_for_ranges_goes_with_bits(tmp_path: Path) -> None:
    for options, text in (
        (("--range", "best"), "--range best says how --bits chooses ranges; give --bits too"),
        (
            ("--bits", "stem=4", "--range", "best", "--range", "minmax"),
            "--range minmax and best exclude each other; give one",
        ),
        (
            ("--bits", "stem=4", "--calibration-data", "x.npz"),
            "--calibration-data is for the ranges of activations; give --bits with --range minmax "
            "or best too",
        ),
        (
            ("--bits", "stem=4", "--range", "best", "--calibration-data", "full"),
            "--calibration-data full names test images, which must not choose ranges; leave it out "
            "for CIFAR-10's training images",
        ),
    ):
        assert text in refused("whatif", "resnet8-int8", *options)
