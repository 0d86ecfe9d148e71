"""Rows go into a model's inputs wherever those have their batch, if they have one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from quantscope.data import Intake, Samples, load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError, QuantscopeError
from quantscope.model import Port, find_batching

Dims = Sequence[int | str | None] | None


def intake(*inputs: tuple[str, str, Dims], outputs: Sequence[Dims] = (), **more: Any) -> Intake:
    ports = tuple(Port(n, t, None if s is None else tuple(s)) for n, t, s in inputs)
    ends = tuple(
        Port(f"y{at}", "float32", None if s is None else tuple(s)) for at, s in enumerate(outputs)
    )
    found = find_batching(ports, ends)
    return Intake("m.onnx", ports, found.fixed, axes=found.axes, **more)


def rows(**arrays: Any) -> Samples:
    return Samples.from_arrays("mine", arrays)


def fed(taken: Intake, samples: Samples, batch: int | None = None) -> list[dict[str, Any]]:
    return [dict(part.feeds) for part in taken.batches(samples, batch)]


def line(taken: Intake, samples: Samples, batch: int | None = None) -> str:
    with pytest.raises(QuantscopeError) as caught:
        fed(taken, samples, batch)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_open_batch_takes_any_number() -> None:
    taken = intake(("x", "float32", ("N", 3)))
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    found = fed(taken, rows(x=x), 2)
    assert [part["x"].shape for part in found] == [(2, 3), (2, 3), (1, 3)]
    np.testing.assert_array_equal(np.concatenate([part["x"] for part in found]), x)


def test_a_fixed_batch_is_filled_up_with_copies() -> None:
    taken = intake(("x", "float32", (2, 3)), outputs=[(2, 4)])
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    parts = list(taken.batches(rows(x=x)))
    assert [(part.rows, part.samples) for part in parts] == [(2, 2), (2, 1)]
    np.testing.assert_array_equal(parts[1].feeds["x"], [x[2], x[2]])


def test_a_batch_in_another_place_takes_rows_one_by_one() -> None:
    taken = intake(("x", "float32", ("N", 6, 4)), ("state", "float32", (2, "N", 5)))
    samples = rows(x=np.ones((3, 6, 4)), state=np.arange(30.0).reshape(3, 2, 5))
    found = fed(taken, samples)
    assert [part["state"].shape for part in found] == [(2, 1, 5)] * 3
    np.testing.assert_array_equal(found[1]["state"][:, 0], samples.arrays["state"][1])


def test_the_open_dimension_of_a_state_is_its_batch_without_a_name_too() -> None:
    taken = intake(("x", "float32", (None, None)), ("state", "float32", (2, None, 5)))
    assert fed(taken, rows(x=np.ones((2, 7)), state=np.ones((2, 2, 5))))[0]["state"].shape == (
        2,
        1,
        5,
    )


def test_a_state_for_one_row_keeps_all_to_one_row() -> None:
    taken = intake(
        ("x", "float32", ("steps", 4)), ("h", "float32", (1, 1, 5)), outputs=[("steps",)]
    )
    found = fed(taken, rows(x=np.ones((3, 4)), h=np.ones((3, 1, 5))))
    assert [(part["x"].shape, part["h"].shape) for part in found] == [((1, 4), (1, 1, 5))] * 3


def test_an_input_without_a_batch_is_one_row_at_a_time() -> None:
    taken = intake(("wave", "float32", (160,)), outputs=[(3,)])
    assert [part["wave"].shape for part in fed(taken, rows(wave=np.ones((2, 160))))] == [(160,)] * 2
    number = intake(("x", "float32", ("N", 3)), ("rate", "int64", ()))
    found = fed(number, rows(x=np.ones((2, 3)), rate=np.array([8, 9])))
    assert [part["rate"].shape for part in found] == [(), ()]
    assert [int(part["rate"]) for part in found] == [8, 9]


def test_one_row_at_a_time_it_may_be_given_whole() -> None:
    taken = intake(("x", "float32", (1, 4, 6)), outputs=[(1, 2)])
    whole = np.arange(48.0, dtype=np.float32).reshape(2, 1, 4, 6)
    bare = fed(taken, rows(x=whole[:, 0]))
    for one, other in zip(bare, fed(taken, rows(x=whole)), strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])
        assert one["x"].shape == (1, 4, 6)


def test_a_lone_array_feeds_a_lone_input_by_any_name() -> None:
    taken = intake(("input.1", "float32", ("N", 3)))
    assert list(fed(taken, rows(images=np.ones((1, 3))))[0]) == ["input.1"]


def test_numbers_become_the_inputs_type() -> None:
    taken = intake(("x", "float16", ("N", 3)), ("ids", "int32", ("N", 2)))
    found = fed(taken, rows(x=np.ones((1, 3)), ids=np.ones((1, 2), np.int64)))[0]
    assert (found["x"].dtype, found["ids"].dtype) == (np.float16, np.int32)


def test_cifar10_is_turned_for_channels_last() -> None:
    sample = load_sample().take(2)
    taken = intake(("x", "float32", ("N", 32, 32, 3)))
    found = fed(taken, sample)[0]["x"]
    np.testing.assert_array_equal(found, sample.images.transpose(0, 2, 3, 1))


BERT = (
    ("ids", "int64", ("N", "sequence")),
    ("mask", "int64", ("N", "sequence")),
)


@pytest.mark.parametrize(
    ("taken", "arrays", "said"),
    [
        (
            intake(*BERT),
            {"ids": np.ones((2, 4), int)},
            "mine has no array 'mask', an input of m.onnx; it has ids. Save one for each input "
            "(ids, mask) with np.savez, or use --data random",
        ),
        (
            intake(*BERT),
            {"ids": np.ones((2, 4), int), "masks": np.ones((2, 4), int)},
            "mine has no array 'mask', an input of m.onnx; it has ids, masks. Save one for each "
            "input (ids, mask) with np.savez, or use --data random",
        ),
        (
            intake(*BERT),
            {"ids": np.ones((2, 4)), "mask": np.ones((2, 4), int)},
            "'ids' of mine is float64, but m.onnx takes int64; save it as int64",
        ),
        (
            intake(*BERT),
            {"ids": np.ones((2, 4, 1), int), "mask": np.ones((2, 4), int)},
            "mine holds 'ids' of shape [N,4,1], but m.onnx takes [N,?]; save them in the model's "
            "own shape",
        ),
        (
            intake(*BERT),
            {"ids": np.ones((2, 4), int), "mask": np.ones((2, 5), int)},
            "'mask' of mine has 5 where 'ids' has 4: both are 'sequence' of m.onnx",
        ),
        (
            intake(*BERT, ids_below={"ids": 30}),
            {"ids": np.array([[1, 2], [3, 30]]), "mask": np.ones((2, 2), int)},
            "Row 1 of mine has the id 30 in 'ids', but the table of m.onnx that it is looked up in "
            "has 30 rows (0 to 29)",
        ),
        (
            intake(("x", "int8", ("N", 2))),
            {"x": np.array([[1, 200]])},
            "'x' of mine runs from 1 to 200, but m.onnx takes int8, -128 to 127",
        ),
        (
            intake(("x", "float32", ("N", 3, 8, 8))),
            {"x": np.ones((1, 8, 8, 3))},
            "mine holds 'x' of shape [N,8,8,3], but m.onnx takes [N,3,8,8]; save them in the "
            "model's own shape",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(
    taken: Intake, arrays: dict[str, Any], said: str
) -> None:
    assert line(taken, rows(**arrays)) == said


def test_rows_that_are_not_equally_many_are_one_line() -> None:
    with pytest.raises(BadDataError) as caught:
        rows(ids=np.ones((2, 4)), mask=np.ones((3, 4)))
    assert str(caught.value) == (
        "The arrays of mine have different numbers of rows (ids 2, mask 3); the first dimension "
        "of each counts rows"
    )


def test_a_label_outside_the_classes_is_one_line() -> None:
    with pytest.raises(BadDataError) as caught:
        Samples.from_arrays("mine", {"x": np.ones((3, 4))}, [0, 5, 1], ["cat", "dog"])
    assert str(caught.value) == (
        "Row 1 of mine has the label 5, but there are 2 class names (0 to 1)"
    )


def test_a_batch_that_is_none_is_one_line() -> None:
    taken = intake(("x", "float32", (4, 3)), outputs=[(4, 2)])
    with pytest.raises(BadConfigError) as caught:
        taken.check_batch(0)
    assert str(caught.value) == "A batch holds at least one image, not 0"
    with pytest.raises(BadConfigError) as caught:
        taken.check_batch(3)
    assert str(caught.value) == "m.onnx takes batches of 4 only, not 3"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("string", "a string"), ("sequence", "a sequence"), ("complex64", "complex64")],
)
def test_inputs_that_cannot_be_fed_are_named(kind: str, words: str) -> None:
    from quantscope.data.intake import check_ports

    with pytest.raises(BadModelError) as caught:
        check_ports("m.onnx", [Port("x", "float32", (1,)), Port("words", kind, (1,))])
    assert str(caught.value) == (
        f"The input 'words' of m.onnx is {words}, which arrays of numbers cannot be given for; "
        f"those that can are float32, int64, uint8 and the like"
    )


def test_batches_are_near_four_megabytes() -> None:
    assert intake(("x", "float32", ("N", 3, 224, 224))).default_batch() == 6
    assert intake(("x", "float32", ("N", 3))).default_batch() == 256
