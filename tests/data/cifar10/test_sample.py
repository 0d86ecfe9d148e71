import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import quantscope.data
from quantscope.data import digest_of, load, load_calibration_pool, load_sample
from quantscope.data.cifar10.sample import images_from_sheet, sheet_from_images
from quantscope.errors import BadDataError


@pytest.mark.parametrize(
    ("loader", "digest"),
    [
        (load_sample, "9f523d2fb55515f2886d5c83eb881b6e44588a1c9c33eea432e5b7c71702d5b9"),
        (load_calibration_pool, "36c8c53678cc55c6b51eb1ac232870a98f17d876c662d57a45083d7304bc6c88"),
    ],
)
def test_bundled_images_decode_to_the_arrays_they_were_made_from(loader, digest):
    images = loader()
    assert images.digest == digest_of(images.images, images.labels) == digest
    assert images.images.shape == (1000, 3, 32, 32)
    assert images.images.dtype == np.uint8
    assert images.labels.dtype == images.indices.dtype == np.int64
    assert images.layout == "nchw-pixels"
    assert set(images.class_counts().values()) == {100}
    assert len(set(images.indices.tolist())) == 1000


def test_indices_are_positions_in_the_right_split():
    assert load_sample().name == "cifar10-test-sample"
    assert load_sample().indices.max() < 10_000
    assert 10_000 < load_calibration_pool().indices.max() < 50_000


def test_bundle_is_small():
    folder = quantscope.data.cifar10.sample.files("quantscope.data") / "bundled"
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 6_000_000


@pytest.mark.parametrize("count", [1, 7, 10, 23, 128, 555, 999, 1000])
def test_every_prefix_of_the_bundled_sets_is_balanced(count):
    for images in (load_sample(), load_calibration_pool()):
        counts = images.take(count).class_counts().values()
        assert sum(counts) == count
        assert max(counts) - min(counts) <= 1


def test_shared_images_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        load_sample().images[0, 0, 0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        load_sample().labels[0] = 1


def test_sheets_keep_every_pixel_where_it_belongs():
    images = np.random.default_rng(0).integers(0, 256, (75, 3, 32, 32), dtype=np.uint8)
    sheet = sheet_from_images(images)
    assert sheet.shape == (96, 800, 3)
    assert np.array_equal(sheet[32:64, 64:96], images[27].transpose(1, 2, 0))
    assert np.array_equal(images_from_sheet(sheet), images)


def test_select_takes_rows_in_the_order_asked_for():
    sample = load_sample()
    chosen = sample.select([999, 3, 3])
    assert np.array_equal(chosen.images[0], sample.images[999])
    assert chosen.indices.tolist() == sample.indices[[999, 3, 3]].tolist()
    assert chosen.digest == digest_of(chosen.images, chosen.labels) != sample.digest


def test_taking_all_keeps_the_digest_and_taking_some_does_not():
    sample = load_sample()
    assert sample.take(1000).digest == sample.digest
    assert sample.take(999).digest != sample.digest


def test_digest_sees_type_shape_pixels_and_labels():
    images, labels = np.zeros((4, 6), np.uint8), np.zeros(4, np.int64)
    changed = images.copy()
    changed[3, 5] = 1
    digests = {
        digest_of(images, labels),
        digest_of(images.astype(np.int8), labels),
        digest_of(images.reshape(4, 2, 3), labels),
        digest_of(changed, labels),
        digest_of(images, labels + 1),
    }
    assert len(digests) == 5
    assert digest_of(np.asfortranarray(changed), labels.astype(np.uint8)) in digests


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_taking_too_many_or_none_says_how_many_there_are(count):
    with pytest.raises(BadDataError) as caught:
        load_sample().take(count)
    assert str(caught.value) == (
        f"{count:,} images were asked of cifar10-test-sample, which has 1,000; choose 1 to 1,000"
    )


def test_selecting_outside_says_which_row():
    with pytest.raises(BadDataError) as caught:
        load_sample().select([0, 1000])
    assert str(caught.value) == "cifar10-test-sample has no image 1000; its rows are 0 to 999"
    whole = int(load_sample().indices[154])
    with pytest.raises(BadDataError, match=r"\(that number of the whole set is row 154 here\)$"):
        load_sample().select([whole])


def test_load_knows_the_sample_and_says_how_to_get_the_full_set(empty_cache):
    assert load("sample") is load_sample()
    with pytest.raises(BadDataError) as caught:
        load("full")
    assert str(caught.value) == (
        f"The full CIFAR-10 set is not in {empty_cache / 'cifar10'}; "
        "get it with: quantscope data fetch"
    )


def test_load_says_what_it_knows():
    with pytest.raises(BadDataError) as caught:
        load("simple")
    assert str(caught.value) == (
        "There is no data 'simple'; give sample, full, random, random:N, or the path of a .npz "
        "file or of a folder of pictures"
    )


@pytest.mark.slow
def test_the_tool_makes_the_bundle_again(tmp_path, monkeypatch):
    monkeypatch.delenv("QUANTSCOPE_CACHE")
    path = Path(__file__).parents[2] / "tools" / "bundle_sample.py"
    tool = runpy.run_path(str(path))
    bundled = quantscope.data.cifar10.sample.files("quantscope.data") / "bundled"
    for split, images in (("test", load_sample()), ("train", load_calibration_pool())):
        try:
            tool["bundle"](split, images.name, folder=tmp_path)
        except BadDataError as error:
            pytest.skip(str(error))
        made = (tmp_path / f"{images.name}.json").read_text()
        assert made == (bundled / f"{images.name}.json").read_text()
        with Image.open(tmp_path / f"{images.name}.png") as picture:
            assert np.array_equal(images_from_sheet(np.asarray(picture)), images.images)
