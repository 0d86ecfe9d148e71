from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests import small_networks

from quantscope.data import (
    PictureWishes,
    RowWishes,
    Samples,
    load,
    load_sample,
    parse_numbers,
    parse_shape,
    parse_size,
    samples_for,
    takes_cifar10,
)
from quantscope.errors import QuantscopeError
from quantscope.model import Model, open_model


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_model(small_networks.float_path("encoder", tmp_path_factory.mktemp("models")))


def line(*given: object, **options: object) -> str:
    with pytest.raises(QuantscopeError) as caught:
        load(*given, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["resnet8", "resnet8-int8", "resnet8-torch"])
def test_what_takes_cifar10_is_given_it_unasked(name: str) -> None:
    model = open_model(name)
    assert takes_cifar10(model)
    assert samples_for(model).digest == load_sample().digest


@pytest.mark.parametrize("name", [n for n in small_networks.NAMES if n != "mobile"])
def test_what_takes_none_of_it_is_given_random_rows(name: str, tmp_path: Path) -> None:
    found = samples_for(open_model(small_networks.float_path(name, tmp_path)))
    assert (found.is_random, len(found), found.name) == (True, 32, "random rows (seed 0)")


def test_random_rows_are_counted_and_cut(encoder: Model) -> None:
    assert len(load("random:7", model=encoder)) == 7
    assert len(load("random:7", model=encoder, first=3)) == 3
    assert load("random:3", model=encoder, wishes=RowWishes(seed=4)).name == "random rows (seed 4)"


def test_files_give_the_arrays_of_the_inputs(encoder: Model, tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    rows = small_networks.feeds("encoder", 3)
    np.savez(path, **rows, labels=[1, 0, 1], more=np.zeros(9))
    found = load(path, model=encoder, first=2)
    assert list(found.arrays) == list(rows)
    assert found.labels.tolist() == [1, 0]


def test_samples_are_made_of_arrays_and_of_batches_of_them(encoder: Model) -> None:
    rows = small_networks.feeds("encoder", 4)
    of_arrays = samples_for(encoder, rows)
    labelled = samples_for(encoder, {**rows, "labels": [0, 2, 1, 0]})
    assert of_arrays.targets is None
    assert labelled.labels.tolist() == [0, 2, 1, 0]
    halves = (
        {**{name: array[at : at + 2] for name, array in rows.items()}, "labels": [at, at]}
        for at in (0, 2)
    )
    of_batches = samples_for(encoder, halves)
    assert of_batches.labels.tolist() == [0, 0, 2, 2]
    for name, array in rows.items():
        np.testing.assert_array_equal(of_arrays.arrays[name], array)
        np.testing.assert_array_equal(of_batches.arrays[name], array)
    assert samples_for(encoder, of_arrays) is of_arrays


def test_what_no_samples_can_be_made_of_is_one_line(encoder: Model) -> None:
    with pytest.raises(QuantscopeError) as caught:
        samples_for(encoder, 7)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Samples are no int; give arrays by the inputs' names, a generator of those, or what "
        "--data takes"
    )


def test_folders_are_pictures(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    found = samples_for(open_model("resnet8"), tmp_path)
    assert found.images.shape == (1, 3, 32, 32)
    assert found.targets is None


def test_bad_names_are_one_line(encoder: Model) -> None:
    assert line("random:0", model=encoder) == ("0 random rows were asked for; make 1 to 1,000,000")
    assert line("random:many", model=encoder) == (
        "--data random:N has the number of rows as N, such as random:64, not 'many'"
    )
    assert line("random") == "Random rows are made from a model's inputs; say of which model"


def test_options_for_other_data_are_one_line(encoder: Model) -> None:
    sized = RowWishes(pictures=PictureWishes(size=(8, 8), mean=(0.5,)))
    assert line("random", model=encoder, wishes=sized) == (
        "--size and --mean say how a folder of pictures is read; --data random is none"
    )
    assert line("sample", wishes=RowWishes(shapes={"": (1, 3)})) == (
        "--shape is for random rows and folders of pictures; those of --data sample have their own"
    )


def test_shapes_sizes_and_numbers_are_read() -> None:
    assert parse_shape("1x3x320x320") == ("", (1, 3, 320, 320))
    assert parse_shape("in=put.1=2x5") == ("in=put.1", (2, 5))
    assert parse_size("224") == (224, 224)
    assert parse_size("480x640") == (480, 640)
    assert parse_numbers("--scale", "1/255") == (1 / 255,)
    assert parse_numbers("--mean", "0.5,-1e2,3") == (0.5, -100, 3)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (
            parse_shape,
            "1x3xh",
            "--shape takes sizes from 1 on with an x between, such as 1x3x320x320 or "
            "NAME=1x3x320x320, not '1x3xh'",
        ),
        (parse_shape, "x=0x3", "--shape takes sizes from 1 on with an x between, such as "),
        (
            parse_size,
            "12x",
            "--size takes pixels, such as 224, or 480x640 for height and width, not '12x'",
        ),
        (
            lambda text: parse_numbers("--mean", text),
            "0.5,nan",
            "--mean takes numbers with commas between, such as 0.485,0.456,0.406 or 1/255, not "
            "'0.5,nan'",
        ),
        (lambda text: parse_numbers("--scale", text), "1/0", "--scale takes numbers with commas"),
        (
            lambda text: PictureWishes(size=parse_size(text)),
            "0",
            "A picture's size is 1 to 16,384 pixels a side, not 0x0",
        ),
        (
            lambda text: PictureWishes(std=parse_numbers("--std", text)),
            "1,0",
            "--std is what is divided by, so more than 0, not 1,0",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(read, text: str, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(QuantscopeError) as caught:
        read(text)
    assert str(caught.value).startswith(said)


def test_a_set_keeps_the_names_of_its_rows() -> None:
    rows = Samples.from_arrays("mine", {"x": np.zeros((3, 2))})
    assert rows.name_of(2) == "2"
    named = Samples(**{**vars(rows), "row_names": ("a", "b", "c")})
    assert named.select([2, 0]).row_names == ("c", "a")
    assert named.take(2).name_of(1) == "b"
