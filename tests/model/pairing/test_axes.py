"""The order of axes is found as NumPy moves them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from quantscope.model.pairing.axes import Turn, in_order, moves_only_ones, order_behind


def moved(array: NDArray[np.int64], turns: list[Turn]) -> NDArray[np.int64]:
    for turn in turns:
        assert turn.shape is not None
        array = array.reshape([int(str(dim)) for dim in turn.shape]).transpose(turn.axes)
    return array


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_the_one_that_numpy_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = (2, 3, 4)
    orders = [tuple(int(axis) for axis in rng.permutation(3)) for _ in range(4)]
    there = np.arange(24).reshape(start)
    here = there.transpose(orders[0])
    # The float network reshapes between its two Transposes.
    turns = [Turn(here.shape, orders[1])]
    between = there.transpose(orders[2]).shape
    float_turns = [Turn(start, orders[2]), Turn((between[0] * between[1], between[2]), (1, 0))]
    q, f = moved(here, turns), moved(there, float_turns)
    found = order_behind(
        orders[0], start, turns=turns, float_turns=float_turns, ends=(q.shape, f.shape)
    )
    matches = [
        order for order in ((0, 1), (1, 0)) if np.array_equal(f.transpose(order).ravel(), q.ravel())
    ]
    if matches:
        assert found is not None
        assert np.array_equal(f.transpose(found or (0, 1)).ravel(), q.ravel())
    else:
        assert found is None


def test_transposes_alone_are_put_together_where_sizes_are_not_known() -> None:
    turns = [Turn(None, (0, 2, 1))]
    float_turns = [Turn(None, (1, 0, 2))]
    found = order_behind((), None, turns=turns, float_turns=float_turns, ends=(None, None))
    there = np.arange(24).reshape(2, 3, 4)
    assert found is not None
    q, f = there.transpose(0, 2, 1), there.transpose(1, 0, 2)
    np.testing.assert_array_equal(f.transpose(found), q)
    assert in_order(f.shape, found) == q.shape


def test_what_undoes_itself_lies_as_it_was() -> None:
    turns = [Turn(("N", 3, 4), (0, 2, 1)), Turn(("N", 4, 3), (0, 2, 1))]
    ends = (("N", 3, 4), ("N", 3, 4))
    assert order_behind((), ends[0], turns=turns, float_turns=[], ends=ends) == ()
    assert order_behind(None, ends[0], turns=turns, float_turns=[], ends=ends) is None


def test_moving_axes_of_length_one_changes_no_place() -> None:
    assert moves_only_ones((1, 0, 2), (7, 1, 5))
    assert not moves_only_ones((1, 0, 2), (7, 2, 5))
    assert not moves_only_ones((1, 0, 2), ("N", 2, 5))
