import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from quantscope.data import PictureWishes, RowWishes, load, load_pictures
from quantscope.errors import BadConfigError, BadDataError, QuantscopeError
from quantscope.model import Model, open_model


def picture(path: Path, color: int = 0, size: tuple[int, int] = (8, 6)) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.new("RGB", size[::-1], (color, 100, 200)).save(path)
    return path


def taker(
    folder: Path, dims: tuple[int | str, ...] = ("N", 3, 8, 6), kind: int = TensorProto.FLOAT
) -> Model:
    node = helper.make_node("Identity", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, kind, dims) for name in "xy")
    proto = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)]
    )
    folder.mkdir(exist_ok=True)
    onnx.save(proto, folder / "m.onnx")
    return open_model(folder / "m.onnx")


def line(folder: Path, model: Model | None = None, wishes: RowWishes | None = None) -> str:
    with pytest.raises(QuantscopeError) as caught:
        load_pictures(folder, model=model, wishes=wishes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sub_folders_are_classes_that_take_turns(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.PNG", "cat/3.jpg", "ape/9.png", "ape/8.png", "ape/.hid.png"):
        picture(tmp_path / "pets" / name)
    (tmp_path / "pets" / "empty").mkdir()
    (tmp_path / "pets" / "notes.txt").write_text("no picture")
    found = load(str(tmp_path / "pets"))
    assert found.name == "pets"
    assert found.class_names == ("ape", "cat")
    assert found.row_names == ("ape/8.png", "cat/1.png", "ape/9.png", "cat/2.PNG", "cat/3.jpg")
    assert found.labels.tolist() == [0, 1, 0, 1, 1]
    assert found.class_counts() == {"ape": 2, "cat": 3}
    assert found.name_of(3) == "cat/2.PNG"
    few = load(str(tmp_path / "pets"), first=3)
    assert few.labels.tolist() == [0, 1, 0]
    assert few.images.shape == (3, 3, 8, 6)
    assert few.class_names == ("ape", "cat")


def test_folders_called_by_numbers_are_those_classes(tmp_path: Path) -> None:
    for name in ("10", "2"):
        picture(tmp_path / name / "a.png")
    found = load_pictures(tmp_path)
    assert sorted(found.labels.tolist()) == [2, 10]
    assert found.class_names[10] == "10"


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    for color in (3, 1, 2):
        picture(tmp_path / f"{color}.png", color)
    found = load_pictures(tmp_path)
    assert found.targets is None
    assert np.asarray(found.images)[:, 0, 0, 0].tolist() == pytest.approx(
        [1 / 255, 2 / 255, 3 / 255]
    )
    assert found.origin == (f"3 pictures of {tmp_path}, no labels: RGB, pixels times 1/255")


def test_the_models_input_says_size_layout_and_type(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png", size=(16, 30))
    for place, (dims, kind, shape, dtype) in enumerate(
        [
            (("N", 3, 8, 6), TensorProto.FLOAT, (1, 3, 8, 6), "float32"),
            (("N", 8, 6, 3), TensorProto.UINT8, (1, 8, 6, 3), "uint8"),
            ((1, 1, 8, 6), TensorProto.FLOAT16, (1, 1, 8, 6), "float16"),
        ]
    ):
        model = taker(tmp_path / str(place), dims, kind)
        found = load_pictures(tmp_path / "data", model=model).images
        assert (found.shape, found.dtype) == (shape, np.dtype(dtype))
        assert np.asarray(found).shape == shape


def test_open_sizes_are_given_as_size_or_shape(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png", size=(16, 30))
    model = taker(tmp_path, ("N", 3, "h", "w"))
    data = tmp_path / "data"
    assert load_pictures(data, model=model).images.shape == (1, 3, 16, 30)
    sized = RowWishes(pictures=PictureWishes(size=(4, 8)))
    assert load_pictures(data, model=model, wishes=sized).images.shape == (1, 3, 4, 8)
    shaped = RowWishes(shapes={"": (1, 3, 12, 10)})
    assert load_pictures(data, model=model, wishes=shaped).images.shape == (1, 3, 12, 10)


def test_settings_beside_the_model_are_followed_and_wishes_go_before(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png", 51)
    (tmp_path / "data" / "preprocessor_config.json").write_text(json.dumps({"size": 4}))
    model = taker(tmp_path / "hub", ("N", 3, "h", "w"))
    assert load_pictures(tmp_path / "data", model=model).images.shape == (1, 3, 4, 4)
    settings = {"size": {"height": 5, "width": 7}, "image_mean": [0.2] * 3, "image_std": [0.5] * 3}
    (tmp_path / "hub" / "preprocessor_config.json").write_text(json.dumps(settings))
    found = load_pictures(tmp_path / "data", model=model)
    assert found.images.shape == (1, 3, 5, 7)
    assert found.images[0][0, 0, 0] == pytest.approx(0, abs=1e-6)
    assert found.origin.endswith(
        "resized to 5x7, RGB, pixels times 1/255, mean 0.2,0.2,0.2, std 0.5,0.5,0.5, as "
        "hub/preprocessor_config.json says"
    )
    wishes = RowWishes(pictures=PictureWishes(mean=(0.0,), std=(2.0,), channels="bgr"))
    changed = load_pictures(tmp_path / "data", model=model, wishes=wishes)
    assert changed.images[0][2, 0, 0] == pytest.approx(0.1)


def test_pictures_are_not_decoded_before_they_are_fed(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png")
    (tmp_path / "data" / "b.png").write_bytes(b"damaged")
    found = load_pictures(tmp_path / "data", model=taker(tmp_path))
    assert len(found) == 2
    with pytest.raises(BadDataError, match=r"b\.png cannot be decoded"):
        np.asarray(found.images)


def test_a_folder_without_pictures_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    assert line(tmp_path) == (
        f"{tmp_path} holds no pictures, and no folders of them; those that are read are bmp, gif, "
        f"jpeg, jpg, pgm, png, ppm, tif, tiff, webp"
    )


def test_pictures_beside_classes_are_one_line(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "cat" / "b.png")
    assert line(tmp_path) == (
        f"{tmp_path} holds pictures (a.png) beside folders of them (cat); leave either out"
    )


def test_a_normalization_that_does_not_fit_the_channels_is_one_line(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png")
    gray = taker(tmp_path, ("N", 1, 8, 6))
    wishes = RowWishes(pictures=PictureWishes(mean=(0.1, 0.2, 0.3)))
    assert line(tmp_path / "data", gray, wishes) == (
        "The mean of pictures has 3 numbers (0.1,0.2,0.3), but they have 1 channels (gray); give "
        "one for each, or one for all, with --mean"
    )


def test_pixels_as_whole_numbers_are_not_normalized(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png")
    model = taker(tmp_path, ("N", 3, 8, 6), TensorProto.UINT8)
    wishes = RowWishes(pictures=PictureWishes(mean=(0.1,), scale=2))
    with pytest.raises(BadConfigError) as caught:
        load_pictures(tmp_path / "data", model=model, wishes=wishes)
    assert str(caught.value) == (
        "The model takes pixels as whole numbers, so leave --mean and --scale out"
    )


def test_a_model_that_takes_no_pictures_is_one_line(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "a.png")
    model = taker(tmp_path, ("N", 10))
    assert line(tmp_path / "data", model) == (
        "'x' takes rows of shape [10], which are not pictures; give --data FILE.npz"
    )


def test_pipes_among_pictures_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(BadDataError, match="is not a regular file; give a picture"):
        load_pictures(tmp_path)
