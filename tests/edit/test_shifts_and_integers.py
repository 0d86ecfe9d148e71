"""Biases that are shifted by real values, and weights whose integers are all set at once."""

import numpy as np
import pytest

from quantscope.edit import (
    Edit,
    Editor,
    SetIntegers,
    SetScale,
    ShiftBias,
    describe,
    edit_from_dict,
    edit_to_dict,
    pack_integers,
    unpack_integers,
)
from quantscope.errors import BadConfigError


def integers_of(editor: Editor, tensor: str, *edits: Edit) -> np.ndarray:
    from quantscope.model.onnx import read_network_of

    return read_network_of(editor.apply(edits).proto).tensor(tensor).integers()


@pytest.mark.parametrize(
    ("values", "kind"),
    [([], "int8"), ([-128, 127, 0], "int8"), ([128, -5], "int16"), ([2**31 - 1, -1], "int32")],
)
def test_packed_integers_come_back_in_the_smallest_type(values: list[int], kind: str) -> None:
    packed = pack_integers(values)
    assert packed.startswith(f"{kind}:")
    assert unpack_integers(packed, len(values)).tolist() == values


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        ("int64:eJwDAAAAAAE=", "they begin with 'int64', not one of: int8, int16, int32"),
        ("int8:*", "they are no compressed base64"),
        ("int8:AAAA", "they are no compressed base64"),
        (pack_integers([1, 2]), "3 integers are wanted, and they hold 2"),
        (pack_integers([0] * 10**6), "3 integers are wanted, and they hold more"),
    ],
)
def test_what_is_no_packing_of_so_many_integers_is_refused(packed: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unpack_integers(packed, 3)


def test_a_shift_counts_in_the_steps_that_scales_leave_it(int8: Editor) -> None:
    def added(*before: Edit) -> np.ndarray:
        by = tuple(np.linspace(-0.4, 0.4, 10))
        plain = {c.tensor: c for c in int8.apply([*before]).changes}
        moved = {c.tensor: c for c in int8.apply([*before, ShiftBias("head.bias", by)]).changes}
        change = moved["head.bias"]
        assert change.after is not None
        stored = int8.network.tensor("head.bias")
        scale = change.after.scale
        assert np.array_equal(
            scale,
            plain["head.bias"].after.scale if plain else stored.params.scale,  # type: ignore[union-attr]
        )
        return np.rint(np.asarray(by) / scale.astype(np.float64))

    assert np.array_equal(added() // 2, np.rint(added() / 2 - 0.25)) or added().any()
    coarse = added(SetScale("flatten.out", factor=2.0))
    assert np.abs(coarse).max() == pytest.approx(np.abs(added()).max() / 2, abs=1)


def test_shifts_of_one_bias_add_up(int8: Editor) -> None:
    one, two = tuple([0.25] * 10), tuple([0.5] * 10)
    twice = int8.apply([ShiftBias("head.bias", one), ShiftBias("head.bias", one)])
    assert twice.to_bytes()[-1] is not None
    assert twice.changes == int8.apply([ShiftBias("head.bias", two)]).changes


def test_a_shift_there_and_back_leaves_the_model_as_it_was(int8: Editor) -> None:
    there, back = tuple([0.3] * 10), tuple([-0.3] * 10)
    applied = int8.apply([ShiftBias("head.bias", there), ShiftBias("head.bias", back)])
    assert applied.changes == ()


def test_all_integers_of_a_weight_are_set(int8: Editor) -> None:
    stored = int8.network.tensor("head.weight").integers()
    wanted = np.clip(stored.astype(int) + 1, -128, 127)
    (change,) = int8.apply([SetIntegers("head.weight", pack_integers(wanted))]).changes
    assert change.integers_changed == np.count_nonzero(wanted != stored)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (ShiftBias("head.bias", (1.0,)), "1 shifts are given for head.bias, which has 10 elements"),
        (ShiftBias("stem.weight", (1.0,)), "stem.weight cannot be shifted: it is no bias"),
        (ShiftBias("head.bias", (float("nan"),) * 10), "A shift of head.bias is nan"),
        (ShiftBias("head.bias", (1e9,) * 10), "The bias of head would leave int32 in channel 0"),
        (SetIntegers("head.weight", "int8:*"), "The integers for head.weight cannot be read"),
        (
            SetIntegers("head.weight", pack_integers([200] * 640)),
            "200 does not fit int8 of head.weight; give an integer from -128 to 127",
        ),
        (SetIntegers("stem.out", "int8:*"), "stem.out has no stored integers to set"),
    ],
)
def test_what_cannot_be_is_one_line(int8: Editor, edit: Edit, why: str) -> None:
    with pytest.raises(BadConfigError, match=why):
        int8.apply([edit])


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (ShiftBias("b", (1.0, -2.5)), "b plus (1, -2.5)"),
        (SetIntegers("w", pack_integers([1, 2])), "all integers of w set"),
    ],
)
def test_they_are_read_back_from_files_and_said_in_words(edit: Edit, text: str) -> None:
    assert edit_from_dict(edit_to_dict(edit)) == edit
    assert describe(edit) == text
