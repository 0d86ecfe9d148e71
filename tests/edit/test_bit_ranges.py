"""The ranges that go with other bits: kept, from end to end, or those that cost least."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_nets import residual

from quantscope.arithmetic import QuantParams, dequantize, quantize
from quantscope.arithmetic.best_range import WIDTHS
from quantscope.edit import Edit, Editor, RangeRule, Recipe, SetBits, describe, parse_bits
from quantscope.errors import BadConfigError
from quantscope.model import open_model

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Editor:
    folder, net = tmp_path_factory.mktemp("small"), residual()
    return Editor(net.save_quantized(folder), net.save_float(folder))


def params_after(editor: Editor, edits: list[Edit], tensor: str) -> QuantParams:
    (found,) = (c.after for c in editor.preview(edits).changes if c.tensor == tensor)
    assert found is not None
    return found


def errors(values: Array, params: QuantParams) -> Array:
    squares = (dequantize(quantize(values, params), params) - values).astype(np.float64) ** 2
    return np.asarray(squares.reshape(len(values), -1).mean(axis=1))


@pytest.mark.parametrize("bits", [2, 3, 4, 6])
def test_no_scale_costs_the_weights_of_a_channel_less_than_the_best_range(
    small: Editor, bits: int
) -> None:
    weights = residual().conv.weight
    best = params_after(small, [SetBits("conv.weight", bits, "best")], "conv.weight")
    keep = params_after(small, [SetBits("conv.weight", bits)], "conv.weight")
    assert best.bits == bits and (best.dtype, best.ends) == (keep.dtype, keep.ends)
    largest = np.abs(weights).reshape(len(weights), -1).max(axis=1) / best.qmax
    # The oracle quantizes the weights with every candidate, channel by channel.
    brute = np.min([errors(weights, best.changed(scale=w * largest)) for w in WIDTHS], axis=0)
    found = errors(weights, best)
    np.testing.assert_allclose(found, np.minimum(brute, errors(weights, keep)), rtol=1e-4)
    assert found.sum() < errors(weights, keep).sum()


def test_from_end_to_end_no_weight_of_any_channel_is_clipped(small: Editor) -> None:
    weights = residual().conv.weight
    params = params_after(small, [SetBits("conv.weight", 4, "minmax")], "conv.weight")
    np.testing.assert_allclose(
        params.scale, np.abs(weights).reshape(len(weights), -1).max(axis=1) / 7, rtol=1e-6
    )


def test_two_ends_are_spread_over_the_integers_in_use(small: Editor) -> None:
    params = params_after(small, [SetBits("branch.out", 4, (-1.5, 1.5))], "branch.out")
    assert params.ends == (-8, 7)
    assert float(params.scale) == pytest.approx(3 / 15)


@pytest.mark.parametrize("rule", ["keep", "minmax", "best"])
def test_what_is_written_stands_in_the_file_and_runs(
    small: Editor, rule: RangeRule, tmp_path: Path
) -> None:
    small.apply([SetBits("weights", 5, rule)]).save(tmp_path / "five.onnx")
    for name in ("conv.weight", "branch.weight", "head.weight"):
        tensor = open_model(tmp_path / "five.onnx").network.tensor(name)
        assert tensor.params.bits == 5
        want = params_after(small, [SetBits("weights", 5, rule)], name)
        assert np.array_equal(tensor.params.scale, want.scale)


@pytest.mark.parametrize("rule", ["minmax", "best", (-0.5, 1.25)])
def test_a_recipe_keeps_the_range(rule: Any) -> None:
    recipe = Recipe("0" * 64, (SetBits("conv.out", 4, rule),))
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_a_recipe_of_old_has_no_range_and_none_is_written_where_it_stays() -> None:
    assert '"range"' not in Recipe("0" * 64, (SetBits("conv.out", 4),)).to_json()


def test_the_words_say_how_the_range_is_chosen() -> None:
    assert describe(parse_bits("all=4")) == "all with 4 bits"
    assert describe(parse_bits("all=4", "best")) == "all with 4 bits over the best range"
    assert describe(SetBits("a", 4, "minmax")) == "a with 4 bits over all values"
    assert describe(SetBits("a", 4, (-1, 2.5))) == "a with 4 bits over [-1, 2.5]"


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (SetBits("conv.out", 4, "best"), "conv.out is computed when the model runs, so its best"),
        (SetBits("all", 4, "minmax"), "x is computed when the model runs, so its minmax range"),
        (SetBits("conv", 4, (0, 1)), r"conv is 2 tensors, and the range \[0, 1\] is of one; name"),
        (SetBits("conv.out", 4, "widest"), "No rule for a range is called 'widest'; there are"),  # type: ignore[arg-type]
        (SetBits("conv.out", 4, (1, -1)), "Range .* is reversed|conv.out: range .* is reversed"),
        (SetBits("conv.out", 4, (0, 0)), "is empty, so its scale would be 0"),
    ],
)
def test_a_range_that_cannot_be_is_refused(small: Editor, edit: Edit, text: str) -> None:
    with pytest.raises(BadConfigError, match=text):
        small.apply([edit])


@pytest.mark.parametrize("given", ["widest", [1.0], 4, [1, 2, 3]])
def test_a_recipe_with_another_range_is_refused(given: Any) -> None:
    text = Recipe("0" * 64, (SetBits("conv.out", 4, "best"),)).to_json()
    with pytest.raises(BadConfigError, match="'range' of the edit 'set bits' is 'keep', 'minmax'"):
        Recipe.from_json(text.replace('"best"', str(given).replace("widest", '"widest"')))
