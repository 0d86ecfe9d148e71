import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantscope.data.pictures.rows import PictureRows, decode
from quantscope.data.pictures.steps import PictureSteps
from quantscope.errors import BadDataError

PLAIN = PictureSteps(dtype="uint8", layout="nhwc")


def painted(path: Path, height: int, width: int, seed: int = 0, mode: str = "RGB") -> Path:
    rng = np.random.default_rng(seed)
    channels = {"RGB": (3,), "L": (), "RGBA": (4,)}[mode]
    pixels = rng.integers(0, 256, (height, width, *channels), np.uint8)
    Image.fromarray(pixels, mode).save(path)
    return path


def rows(folder: Path, count: int, steps: PictureSteps, size: tuple[int, int]) -> PictureRows:
    return PictureRows(
        [painted(folder / f"{place}.png", *size, seed=place) for place in range(count)], steps
    )


def test_pictures_become_numbers_as_model_hubs_do_it(tmp_path: Path) -> None:
    """The oracle is each step written out with Pillow and float64."""
    path = painted(tmp_path / "a.png", 37, 50)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    steps = PictureSteps(shortest=24, crop=(20, 22), resample=3, mean=mean, std=std)
    found = PictureRows([path], steps)[0]
    with Image.open(path) as image:
        resized = image.resize((int(24 * 50 / 37), 24), Image.Resampling.BICUBIC)
    top, left = (24 - 20) // 2, (resized.width - 22) // 2
    pixels = np.asarray(resized, np.float64)[top : top + 20, left : left + 22]
    expected = ((pixels / 255 - mean) / std).transpose(2, 0, 1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_covers_a_size_is_cut_from_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(path)
    found = decode(path, PictureSteps(cover=(10, 10), dtype="uint8"))
    assert found.shape == (10, 10, 3)
    assert (found == 200).all()


@pytest.mark.parametrize(
    ("layout", "channels", "shape"),
    [
        ("nchw", "rgb", (3, 5, 7)),
        ("nhwc", "rgb", (5, 7, 3)),
        ("nchw", "gray", (1, 5, 7)),
        ("nhwc", "bgr", (5, 7, 3)),
    ],
)
def test_layouts_and_channels(layout: Any, channels: Any, shape: Any, tmp_path: Path) -> None:
    path = painted(tmp_path / "a.png", 5, 7)
    steps = PictureSteps(layout=layout, channels=channels, dtype="uint8")
    found = PictureRows([path], steps)
    assert found.shape == (1, *shape)
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("L") if channels == "gray" else image)
    pixels = pixels.reshape(5, 7, -1)
    pixels = pixels[..., ::-1] if channels == "bgr" else pixels
    expected = pixels if layout == "nhwc" else pixels.transpose(2, 0, 1)
    np.testing.assert_array_equal(found[0], expected)


def test_any_mode_becomes_the_channels_that_are_wanted(tmp_path: Path) -> None:
    for mode in ("L", "RGBA"):
        path = painted(tmp_path / f"{mode}.png", 4, 6, mode=mode)
        assert decode(path, PLAIN).shape == (4, 6, 3)


def test_sixteen_bits_are_brought_to_eight(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.array([[0, 256, 65535]], np.uint16)).save(path)
    found = decode(path, PictureSteps(channels="gray", dtype="uint8"))
    assert found[0, :, 0].tolist() == [0, 1, 255]


def test_a_picture_that_lies_on_its_side_is_turned(tmp_path: Path) -> None:
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(path, exif=exif)
    assert decode(path, PLAIN).shape == (8, 4, 3)


def test_only_what_is_asked_for_is_decoded(tmp_path: Path) -> None:
    found = rows(tmp_path, 6, PLAIN, (4, 5))
    assert found.shape == (6, 4, 5, 3)
    (tmp_path / "1.png").write_bytes(b"damaged since")
    part = found[2:4]
    assert isinstance(part, PictureRows)
    assert part.shape == (2, 4, 5, 3)
    np.testing.assert_array_equal(np.asarray(part)[1], found[3])
    chosen = found[np.array([5, 0])]
    np.testing.assert_array_equal(np.asarray(chosen)[0], found[5])
    with pytest.raises(BadDataError, match=r"1\.png cannot be decoded"):
        np.asarray(found)


def test_a_digest_is_of_the_files_and_the_steps(tmp_path: Path) -> None:
    found = rows(tmp_path, 2, PLAIN, (4, 5))
    before = found.digest()
    assert found.digest() == before
    assert found[:1].digest() != before
    assert PictureRows(found.files, PictureSteps(dtype="uint8")).digest() != before
    painted(tmp_path / "1.png", 4, 5, seed=9)
    assert found.digest() != before


def line(path: Path, steps: PictureSteps = PLAIN) -> str:
    with pytest.raises(BadDataError) as caught:
        decode(path, steps)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_no_picture_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"no picture")
    assert line(path) == (
        f"{path} cannot be decoded (it is none, or damaged); give pictures such as PNG or JPEG"
    )
    whole = painted(tmp_path / "b.png", 40, 50).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert line(path).startswith(f"{path} cannot be decoded (")
    assert (
        line(tmp_path / "none.png") == f"There is no file {tmp_path / 'none.png'}; give a picture"
    )


def png_of(width: int, height: int) -> bytes:
    """A picture whose header says a size, with almost nothing behind it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b""))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def test_bombs_are_one_line_and_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    tracemalloc.start()
    try:
        path.write_bytes(png_of(100_000, 100_000))
        assert line(path).startswith(f"{path} cannot be decoded (Image size (10000000000 pixels)")
        path.write_bytes(png_of(10_000, 5_100))
        assert line(path) == (
            f"{path} has 10,000 x 5,100 pixels, more than the 40,000,000 that are decoded; make "
            f"it smaller"
        )
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_strip_is_not_blown_up(tmp_path: Path) -> None:
    path = painted(tmp_path / "strip.png", 1, 4000)
    assert line(path, PictureSteps(shortest=512)).startswith(
        "A picture of 1x4000 would be resized to 512x2048000"
    )


def test_pictures_of_two_sizes_want_one(tmp_path: Path) -> None:
    files = [painted(tmp_path / "a.png", 4, 5), painted(tmp_path / "b.png", 6, 5)]
    with pytest.raises(BadDataError) as caught:
        np.asarray(PictureRows(files, PLAIN))
    assert str(caught.value) == (
        f"{files[1]} is 6x5x3 where a.png is 4x5x3; give one size for all with --size HEIGHTxWIDTH"
    )
