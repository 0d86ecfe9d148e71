"""The guided recipes fit the bundled models and do what their texts say."""

from pathlib import Path

import pytest

from quantscope.data import load_sample
from quantscope.edit import Editor, Recipe, SetScale, guided_recipes, replay
from quantscope.model import find_model, load_onnx
from quantscope.run import evaluate, kernel_map
from quantscope.run.cpu import saturates_8bit_products

NAMES = ["break-a-folded-relu", "saturation-and-its-cure", "starve-a-residual-branch"]


def accuracy(recipe: Recipe, folder: Path, execution: str = "reference") -> float:
    applied, _ = replay(recipe, Editor(recipe.base_model))
    applied.save(folder / "edited.onnx")
    images = load_sample()
    return evaluate(folder / "edited.onnx", images, execution=execution).accuracy  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_guided_recipe_is_for_a_bundled_model_and_teaches(name: str) -> None:
    assert list(guided_recipes()) == NAMES
    recipe = guided_recipes()[name]
    assert recipe.base_digest == load_onnx(find_model(recipe.base_model)).digest
    assert recipe.title and len(recipe.note) > 300
    applied, skipped = replay(recipe, Editor(recipe.base_model))
    assert applied.changes and not skipped


def test_a_moved_zero_point_breaks_the_folded_relu(tmp_path: Path) -> None:
    recipe = guided_recipes()["break-a-folded-relu"]
    applied, _ = replay(recipe, Editor(recipe.base_model))
    assert [warning.tensor for warning in applied.warnings] == ["stack1.conv1.out"]
    assert accuracy(recipe, tmp_path) == pytest.approx(0.26, abs=0.03)


def test_a_coarse_branch_starves(tmp_path: Path) -> None:
    recipe = guided_recipes()["starve-a-residual-branch"]
    assert accuracy(recipe, tmp_path) == pytest.approx(0.77, abs=0.03)


@pytest.mark.slow
def test_how_much_a_branch_needs_is_a_matter_of_the_branch(tmp_path: Path) -> None:
    recipe = guided_recipes()["starve-a-residual-branch"]
    for factor, expected in ((8.0, 0.89), (32.0, 0.24)):
        other = Recipe(
            recipe.base_digest,
            (SetScale("stack1.conv2.out", factor=factor),),
            base_model=recipe.base_model,
        )
        assert accuracy(other, tmp_path) == pytest.approx(expected, abs=0.03)
    harmless = (SetScale("stack3.conv2.out", factor=16.0),)
    other = Recipe(recipe.base_digest, harmless, base_model=recipe.base_model)
    assert accuracy(other, tmp_path) > 0.89


def test_seven_bits_of_weight_cure_the_saturation(tmp_path: Path) -> None:
    recipe = guided_recipes()["saturation-and-its-cure"]
    reference = accuracy(recipe, tmp_path)
    runtime = accuracy(recipe, tmp_path, "runtime")
    assert reference > 0.89
    assert abs(runtime - reference) < 0.01
    kernels = kernel_map(tmp_path / "edited.onnx")
    assert sum(layer.kernel == "integer" for layer in kernels.layers) >= 10


def test_the_gap_is_there_where_the_processor_saturates(tmp_path: Path) -> None:
    recipe = guided_recipes()["saturation-and-its-cure"]
    if not saturates_8bit_products():
        pytest.skip("this processor adds the products of uint8 and int8 without saturation")
    unedited = Recipe(recipe.base_digest, (), base_model=recipe.base_model)
    assert accuracy(unedited, tmp_path) - accuracy(unedited, tmp_path, "runtime") > 0.03
    stem = Recipe(recipe.base_digest, recipe.edits[:1], base_model=recipe.base_model)
    assert accuracy(stem, tmp_path, "runtime") > 0.88
