"""Recipes: edits as a file that reads well, compares line by line and is not believed blindly."""

import json
from pathlib import Path
from typing import Any

import pytest

from quantscope.edit import (
    Edit,
    Editor,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    Recipe,
    SetChannel,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
    describe,
    replay,
)
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError

EVERY_KIND: dict[Edit, str] = {
    SetScale("a", 0.1): "scale of a = 0.1",
    SetScale("a", (0.1, 0.2)): "scale of a = (0.1, 0.2)",
    SetScale("a", (1.0, 2.0, 3.0, 4.0)): "scale of a = (1, 2, 3, and 1 more)",
    SetScale("a", factor=2.0): "scale of a times 2",
    SetZeroPoint("a", -3): "zero-point of a = -3",
    SetZeroPoint("a", (1, 2)): "zero-point of a = (1, 2)",
    SetRange("a", -1.5, 2.0): "range of a = [-1.5, 2]",
    SetInteger("a.weight", (0, 1), 7): "integer [0, 1] of a.weight = 7",
    SetChannel("a.weight", 2, 0): "integers of channel 2 of a.weight = 0",
    SetChannel("a.weight", 2, (4, 5)): "integers of channel 2 of a.weight = (4, 5)",
    FlipBit("a.weight", (0, 1), 7): "bit 7 of integer [0, 1] of a.weight flipped",
    Off("a"): "a not quantized",
    On("a"): "a quantized again",
    OffRole("weights"): "all weights not quantized",
    OnRole("activations"): "all activations quantized again",
}


@pytest.mark.parametrize(("edit", "text"), EVERY_KIND.items(), ids=lambda value: str(value)[:40])
def test_every_edit_is_described_in_one_line(edit: Edit, text: str) -> None:
    assert describe(edit) == text


def test_a_recipe_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    effect = {"accuracy": 0.5, "provenance": {"images": [1, 2, 3], "ok": True, "none": None}}
    recipe = Recipe("0f" * 32, tuple(EVERY_KIND), "Nötig – ja", effect, "A title", "resnet8-int8")
    recipe.save(tmp_path / "recipe.json")
    assert Recipe.load(tmp_path / "recipe.json") == recipe
    assert Recipe.from_json(Recipe("0f" * 32, ()).to_json()) == Recipe("0f" * 32, ())


def test_recipes_that_differ_in_an_edit_differ_in_a_line() -> None:
    edits = (SetScale("a", 0.1), Off("b"), SetZeroPoint("c", 3))
    other = (*edits[:1], Off("bee"), *edits[2:])
    lines, others = (Recipe("0f" * 32, e).to_json().splitlines() for e in (edits, other))
    assert sum(one != two for one, two in zip(lines, others, strict=True)) == 1
    assert '    {"edit": "set scale", "tensor": "a", "scale": 0.1},' in lines


def good() -> dict[str, Any]:
    return json.loads(Recipe("0f" * 32, (Off("a"),)).to_json())


def with_edit(**edit: Any) -> dict[str, Any]:
    return good() | {"edits": [{"edit": "off", "target": "a"}, edit]}


WRONG: list[tuple[Any, str]] = [
    ([], "is not a recipe: it is no object with edits"),
    ({"edits": []}, "is not a recipe: its format is None, not 'quantscope recipe 1'"),
    (good() | {"format": "quantscope recipe 9"}, "its format is 'quantscope recipe 9'"),
    (
        good() | {"more": 1},
        "it has 'more'; known are format, title, base_model, base_digest, note, edits, effect",
    ),
    (good() | {"note": 3}, "its 'note' is no text"),
    (good() | {"base_digest": "abc"}, "its 'base_digest' is not the sha256 of a model"),
    (good() | {"edits": {}}, "its 'edits' are no list"),
    (good() | {"effect": 7}, "its 'effect' is no object"),
    (good() | {"edits": [3]}, "edit 1: An edit is an object with a kind, not 3"),
    (with_edit(edit="set scales"), "edit 2: No edit is called 'set scales'; there are: set scale,"),
    (with_edit(edit=["off"]), "edit 2: No edit is called ['off']"),
    (with_edit(edit="off"), "edit 2: The edit 'off' needs 'target', which is missing"),
    (
        with_edit(edit="off", target="a", layer="b"),
        "edit 2: The edit 'off' has no 'layer'; it has: target",
    ),
    (
        with_edit(edit="off", target=3),
        "edit 2: 'target' of the edit 'off' is a layer's or tensor's name, not 3",
    ),
    (
        with_edit(edit="set scale", tensor="a"),
        "edit 2: The edit 'set scale' needs either 'scale' or 'factor'",
    ),
    (
        with_edit(edit="set scale", tensor="a", scale="big"),
        "'scale' of the edit 'set scale' is a number or a list of numbers, not 'big'",
    ),
    (with_edit(edit="set scale", tensor="a", scale=True), "is a number or a list of numbers"),
    (with_edit(edit="set scale", tensor="a", scale=[]), "is a number or a list of numbers"),
    (
        with_edit(edit="set zero-point", tensor="a", zero_point=1.5),
        "'zero_point' of the edit 'set zero-point' is a whole number or a list of them, not 1.5",
    ),
    (
        with_edit(edit="off role", role="biases"),
        "'role' of the edit 'off role' is 'weights' or 'activations', not 'biases'",
    ),
    (
        with_edit(edit="flip bit", tensor="a", index=3, bit=1),
        "'index' of the edit 'flip bit' is a list of whole numbers, not 3",
    ),
]


@pytest.mark.parametrize(("content", "text"), WRONG, ids=lambda value: str(value)[-50:])
def test_a_wrong_recipe_is_refused_in_one_line(content: Any, text: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadConfigError) as refused:
        Recipe.load(path)
    assert str(refused.value).startswith(f"{path} is not a recipe: ")
    assert text in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is not JSON: Expecting property name"),
        (b"\xff\xfe", "is not a recipe: it is not UTF-8 text"),
        (b'{"a": NaN}', "is not JSON: NaN is not a number in JSON"),
        (b'{"a": 1, "a": 2}', "is not JSON: 'a' is there twice"),
        (b"[" * 100_000, "is not JSON: "),
    ],
)
def test_a_file_that_is_no_json_is_refused_in_one_line(
    content: bytes, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "recipe.json"
    path.write_bytes(content)
    with pytest.raises(BadConfigError) as refused:
        Recipe.load(path)
    assert text in str(refused.value) and "\n" not in str(refused.value)


def test_a_missing_recipe_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadConfigError, match=r"There is no file .*none\.json; give a recipe"):
        Recipe.load(tmp_path / "none.json")
    with pytest.raises(BadConfigError, match="is a folder; give a recipe"):
        Recipe.load(tmp_path)


def test_infinity_cannot_be_kept(tmp_path: Path) -> None:
    recipe = Recipe("0f" * 32, (SetScale("a", float("inf")),))
    with pytest.raises(BadConfigError, match="NaN or infinity"):
        recipe.save(tmp_path / "recipe.json")
    assert not list(tmp_path.iterdir())


def test_a_recipe_replays_on_its_own_model(int8: Editor) -> None:
    edits = (SetScale("stem.out", 0.25), Off("head"))
    applied, skipped = replay(Recipe(int8.model.digest, edits), int8)
    assert applied.to_bytes() == int8.apply(edits).to_bytes()
    assert skipped == ()
    with pytest.raises(BadModelError, match=r"No quantized tensor 'steam\.out'"):
        replay(Recipe(int8.model.digest, (SetScale("steam.out", 0.25),)), int8)


def test_a_recipe_for_another_model_is_refused_unless_told(int8: Editor, uint8: Editor) -> None:
    edits = (
        SetScale("stem.out", 0.25),
        SetZeroPoint("stem.out", -100),
        SetScale("steam.out", 2.0),
        Off("head"),
    )
    recipe = Recipe(int8.model.digest, edits, base_model="resnet8-int8")
    with pytest.raises(QuantscopeError) as refused:
        replay(recipe, uint8)
    assert str(refused.value) == (
        f"The recipe is for resnet8-int8 ({int8.model.digest[:12]}), and resnet8-uint8.onnx is "
        f"{uint8.model.digest[:12]}; give its own model, or allow another one"
    )
    applied, skipped = replay(recipe, uint8, other_model_ok=True)
    assert applied.edits == (edits[0], edits[3])
    assert [edit for edit, _ in skipped] == [edits[1], edits[2]]
    assert skipped[0][1] == "stem.out: zero-point -100 does not fit uint8; give one from 0 to 255"
    assert skipped[1][1].startswith("No quantized tensor 'steam.out'")


def test_a_recipe_of_which_nothing_fits_is_refused_naming_why(uint8: Editor) -> None:
    edits: tuple[Edit, ...] = (SetZeroPoint("stem.out", -100), *(Off(f"no{n}") for n in range(5)))
    with pytest.raises(BadConfigError) as refused:
        replay(Recipe("0f" * 32, edits), uint8, other_model_ok=True)
    text = str(refused.value)
    assert text.startswith(
        "None of the 6 edits of the recipe can be applied to resnet8-uint8.onnx: zero-point of "
        "stem.out = -100 (stem.out: zero-point -100 does not fit uint8); no0 not quantized (No "
    )
    assert text.endswith("; and 2 more") and "\n" not in text
    with pytest.raises(BadConfigError, match=r"The recipe's only edit cannot be applied to resnet"):
        replay(Recipe("0f" * 32, edits[:1]), uint8, other_model_ok=True)
    assert replay(Recipe("0f" * 32, ()), uint8, other_model_ok=True)[0].edits == ()
