import json
from pathlib import Path
from typing import Any

import pytest

from quantscope.data.pictures.preprocessor import NAME, find_preprocessor, read_preprocessor
from quantscope.errors import BadDataError


def written(folder: Path, **facts: Any) -> Path:
    path = folder / NAME
    path.write_text(json.dumps(facts))
    return path


def line(path: Path) -> str:
    with pytest.raises(BadDataError) as caught:
        read_preprocessor(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_as_convnets_have_it(tmp_path: Path) -> None:
    found = read_preprocessor(
        written(
            tmp_path,
            do_resize=True,
            size={"shortest_edge": 256},
            resample=3,
            do_center_crop=True,
            crop_size={"height": 224, "width": 192},
            do_rescale=True,
            rescale_factor=1 / 255,
            do_normalize=True,
            image_mean=[0.485, 0.456, 0.406],
            image_std=[0.229, 0.224, 0.225],
            do_convert_rgb=True,
            image_processor_type="AnImageProcessor",
        )
    )
    assert (found.shortest, found.stretch, found.crop, found.resample) == (
        256,
        None,
        (224, 192),
        3,
    )
    assert found.scale == 1 / 255
    assert found.mean == (0.485, 0.456, 0.406)
    assert found.std == (0.229, 0.224, 0.225)
    assert not found.is_bgr


@pytest.mark.parametrize(
    ("facts", "shortest", "stretch", "crop"),
    [
        ({"size": {"height": 20, "width": 30}}, None, (20, 30), None),
        ({"size": 24}, None, (24, 24), None),
        ({"size": 24, "do_center_crop": True, "crop_size": 20}, 24, None, (20, 20)),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, 256, None, (224, 224)),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, None, (384, 384), None),
        ({"size": 24, "do_resize": False}, None, None, None),
    ],
)
def test_sizes_are_read_as_each_of_their_kinds(
    facts: dict[str, Any], shortest: Any, stretch: Any, crop: Any, tmp_path: Path
) -> None:
    found = read_preprocessor(written(tmp_path, **facts))
    assert (found.shortest, found.stretch, found.crop) == (shortest, stretch, crop)


def test_steps_that_are_switched_off_do_nothing(tmp_path: Path) -> None:
    found = read_preprocessor(
        written(tmp_path, do_rescale=False, do_normalize=False, image_mean=[9], image_std=[9])
    )
    assert (found.scale, found.mean, found.std) == (1, (0,), (1,))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"size": -3}, "has size -3; it is pixels, or height and width, or a shortest_edge"),
        ({"size": {"depth": 3}}, "has size {'depth': 3}; it is pixels"),
        ({"resample": "best"}, "has resample 'best'; it is a number from 0 to 5"),
        ({"rescale_factor": [1, 2]}, "has rescale_factor [1, 2]; it is one number"),
        ({"image_mean": ["a"]}, "has image_mean ['a']; it is numbers"),
        ({"image_std": [1, 0, 1]}, "has image_std [1.0, 0.0, 1.0], which is divided by"),
        ({"size": {"shortest_edge": 24}, "crop_pct": 7}, "has crop_pct 7; it is a share from 0.1"),
        (
            {"size": {"shortest_edge": 800, "longest_edge": 1333}},
            "resizes to a shorter side of 800 and a longer one of at most 1333, so that sizes "
            "differ; give one for all with --size HEIGHTxWIDTH",
        ),
    ],
)
def test_settings_that_cannot_be_are_one_line(
    facts: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, **facts)
    assert line(path).startswith(f"{path} {said}")


def test_what_is_no_settings_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text("[1]")
    assert line(path) == (
        f"{path} holds no settings by name; give a preprocessor's settings, as models on model "
        f"hubs carry them"
    )
    path.write_text("{")
    assert line(path).startswith(f"{path} is not JSON")


def test_the_first_folder_that_has_one_counts(tmp_path: Path) -> None:
    for name, size in (("one", 8), ("two", 16)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, size=size)
    (tmp_path / "none").mkdir()
    folders = [tmp_path / name for name in ("none", "two", "one")]
    found = find_preprocessor(None, *folders)
    assert found is not None
    assert found.stretch == (16, 16)
    assert find_preprocessor(None, tmp_path / "none") is None
