"""Channels rescaled between two layers of the bundled model: what moves, and what is refused."""

import numpy as np
import pytest
from onnx import numpy_helper

from quantscope.edit import (
    Edit,
    Editor,
    Off,
    ScaleChannels,
    SetBits,
    SetIntegers,
    ShiftBias,
    describe,
    edit_from_dict,
    edit_to_dict,
    pack_integers,
)
from quantscope.errors import BadConfigError
from quantscope.model import open_model

FIRST, SECOND = "stack1.conv1", "stack1.conv2"
FACTORS = tuple(float(factor) for factor in np.geomspace(0.25, 4, 16))


def scaled(factors: tuple[float, ...] = FACTORS) -> ScaleChannels:
    return ScaleChannels(FIRST, SECOND, factors)


@pytest.fixture(scope="module")
def int8() -> Editor:
    return Editor("resnet8-int8")


def test_weights_and_bias_are_rounded_from_the_rescaled_float_ones(int8: Editor) -> None:
    found = {change.tensor: change for change in int8.apply([scaled()]).changes}
    assert set(found) == {f"{FIRST}.weight", f"{FIRST}.bias", f"{SECOND}.weight", f"{SECOND}.bias"}
    factors = np.array(FACTORS).reshape(-1, 1, 1, 1)
    for name, by in ((FIRST, 1 / factors), (SECOND, factors.reshape(1, -1, 1, 1))):
        params = found[f"{name}.weight"].after
        assert params is not None
        real = int8.float_values(f"{name}.weight") * by
        largest = np.abs(real).reshape(len(real), -1).max(axis=1)
        np.testing.assert_allclose(params.scale.ravel() * 127, largest, rtol=1e-6)
        integers = int8.integers_under([scaled()], f"{name}.weight")
        wanted = np.rint(real / params.scale.reshape(-1, 1, 1, 1).astype(np.float64))
        assert np.abs(integers - wanted).max() <= 1  # at a half, by float32
        assert np.mean(integers != wanted) < 1e-3


def test_factors_multiply_and_one_over_them_goes_back(int8: Editor) -> None:
    squared = int8.apply([scaled(), scaled()]).changes
    assert squared == int8.apply([scaled(tuple(f * f for f in FACTORS))]).changes
    back = scaled(tuple(1 / factor for factor in FACTORS))
    for change in int8.apply([scaled(), back]).changes:
        assert change.before is not None and change.after is not None
        np.testing.assert_allclose(change.before.scale, change.after.scale, rtol=1e-6)


def test_a_shift_of_the_bias_before_is_rescaled_with_it(int8: Editor) -> None:
    shift = np.linspace(-1, 1, 16)
    before = [ShiftBias(f"{FIRST}.bias", tuple(shift)), scaled()]
    after = [scaled(), ShiftBias(f"{FIRST}.bias", tuple(shift / np.array(FACTORS)))]
    assert int8.apply(before).changes == int8.apply(after).changes


def test_bits_and_off_hold_for_the_rescaled_weights(int8: Editor) -> None:
    edits = [scaled(), SetBits(f"{FIRST}.weight", 4, "minmax")]
    change = next(c for c in int8.preview(edits).changes if c.tensor == f"{FIRST}.weight")
    real = int8.float_values(f"{FIRST}.weight", edits)
    assert change.after is not None and change.after.bits == 4
    np.testing.assert_allclose(
        change.after.scale.ravel() * 7, np.abs(real).reshape(16, -1).max(axis=1), rtol=1e-6
    )
    proto = int8.apply([scaled(), Off(f"{FIRST}.weight")]).proto
    stored = [numpy_helper.to_array(tensor) for tensor in proto.graph.initializer]
    assert any(each.shape == real.shape and np.array_equal(each, real) for each in stored)


def test_the_file_keeps_what_was_applied(int8: Editor, tmp_path: object) -> None:
    path = f"{tmp_path}/scaled.onnx"
    int8.apply([scaled()]).save(path)
    written = open_model(path).network.tensor(f"{SECOND}.weight")
    assert np.array_equal(written.integers(), int8.integers_under([scaled()], f"{SECOND}.weight"))


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ([scaled((1.0,))], "1 factors are given for the channels from stack1.conv1 to stack1"),
        ([scaled((0.0,) * 16)], "A factor for the channels from stack1.conv1 .* is 0; give"),
        ([scaled((float("nan"),) * 16)], "is nan; give positive numbers"),
        (
            [ScaleChannels("stem", FIRST, FACTORS)],
            "from stem to stack1.conv1 cannot be rescaled: 2 layers read what stem gives",
        ),
        (
            [ScaleChannels(FIRST, "head", FACTORS)],
            "from stack1.conv1 to head cannot be rescaled: head does not follow it",
        ),
        (
            [SetIntegers(f"{FIRST}.weight", pack_integers([0] * 16 * 16 * 9)), scaled()],
            "Integers of stack1.conv1.weight are set before its channels are rescaled",
        ),
        ([scaled((1e-12,) * 16)], "The bias of stack1.conv|scale"),
    ],
)
def test_what_cannot_be_is_one_line(int8: Editor, edits: list[Edit], why: str) -> None:
    with pytest.raises(BadConfigError, match=why):
        int8.apply(edits)


def test_it_is_read_back_from_files_and_said_in_words() -> None:
    edit = ScaleChannels("a", "b", (1.0, 2.5))
    assert edit_from_dict(edit_to_dict(edit)) == edit
    assert describe(edit) == "channels from a to b divided by (1, 2.5)"
