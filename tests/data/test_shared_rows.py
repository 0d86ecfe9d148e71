"""Rows that two sets have in common."""

import numpy as np

from quantscope.data import Samples, shared_rows


def rows(array: np.ndarray) -> Samples:
    return Samples.from_arrays("rows", {"x": array})


def test_rows_are_found_in_any_order_and_counted_on_the_first_side() -> None:
    array = np.random.default_rng(0).normal(0, 1, (300, 4)).astype(np.float32)
    others = np.concatenate([array[[7, 280, 3]], array[[7]] + 1])
    assert shared_rows(rows(others), rows(array)) == 3
    assert shared_rows(rows(array[:200]), rows(array[100:])) == 100


def test_so_few_as_public_sets_hold_twice_are_chance() -> None:
    array = np.random.default_rng(0).normal(0, 1, (400, 4)).astype(np.float32)
    others = np.concatenate([array[:2], array[2:200] + 1])
    assert shared_rows(rows(others), rows(array)) == 0
    assert shared_rows(rows(others[:10]), rows(array)) == 2


def test_the_same_bytes_in_another_shape_or_type_are_no_same_row() -> None:
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    assert shared_rows(rows(array), rows(array.reshape(6, 2, 2))) == 0
    assert shared_rows(rows(array), rows(array.view(np.int32))) == 0
