import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from quantscope.data import load, load_npz
from quantscope.errors import BadDataError

HOW = "np.savez(path, images=images, labels=labels)"


def test_images_come_back_as_they_are(tmp_path):
    images = np.random.default_rng(0).normal(size=(5, 7, 4, 1)).astype(np.float32)
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, images=images, labels=np.array([2, 0, 1, 1, 2], np.uint8))
    loaded = load(str(path))
    assert loaded.name == "mine.npz"
    assert loaded.layout == "as-is"
    assert loaded.images.dtype == np.float32
    assert np.array_equal(loaded.images, images)
    assert loaded.labels.dtype == np.int64
    assert loaded.indices.tolist() == [0, 1, 2, 3, 4]
    assert loaded.class_counts() == {"0": 1, "1": 2, "2": 2}
    assert len(loaded.digest) == 64


def test_class_names_are_used_when_given(tmp_path):
    path = tmp_path / "named.npz"
    np.savez(path, images=np.zeros((2, 3)), labels=[1, 0], class_names=["no", "yes", "never"])
    assert load_npz(path).class_counts() == {"no": 1, "yes": 1, "never": 0}


def test_an_array_that_looks_like_labels_by_another_name_is_told(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((3, 2)), label=np.array([1, 0, 1]), weight=np.zeros(3))
    found = load_npz(path, inputs=["x"])
    assert found.targets is None
    assert found.describe_origin() == (
        "mine.npz without labels: its array 'label' is not used; name it 'labels'"
    )
    np.savez(path, x=np.zeros((3, 2)), ids=np.zeros((3, 2), int), more=np.zeros(4, int))
    assert load_npz(path, inputs=["x"]).describe_origin() == "mine.npz"


def _line(path, inputs=()) -> str:
    with pytest.raises(BadDataError) as caught:
        load_npz(path, inputs=inputs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_file(tmp_path):
    path = tmp_path / "none.npz"
    assert _line(path) == f"There is no file {path}; give a .npz file with images and labels"


def test_folder(tmp_path):
    assert _line(tmp_path) == f"{tmp_path} is a folder; give a .npz file with images and labels"


@pytest.mark.parametrize("content", [b"", b"not a zip", b"\x93NUMPY\x01\x00"])
def test_not_an_npz(tmp_path, content):
    path = tmp_path / "wrong.npz"
    path.write_bytes(content)
    assert _line(path) == (f"{path} is not a .npz file, or is cut short; write one with: {HOW}")


def test_truncated(tmp_path):
    path = tmp_path / "cut.npz"
    np.savez(path, images=np.zeros((9, 3, 8, 8)), labels=np.zeros(9, int))
    path.write_bytes(path.read_bytes()[:-30])
    assert _line(path).startswith(f"{path} is not a .npz file, or is cut short")


def test_damaged_inside(tmp_path):
    path = tmp_path / "damaged.npz"
    np.savez(path, images=np.zeros((9, 3, 8, 8)), labels=np.zeros(9, int))
    content = bytearray(path.read_bytes())
    content[1000] ^= 0xFF
    path.write_bytes(content)
    assert _line(path) == (
        f"{path} cannot be read (Bad CRC-32 for file 'images.npy'); write it anew"
    )


def test_zip_of_something_else(tmp_path):
    path = tmp_path / "zip.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"text")
        archive.writestr("labels.npy", b"text")
    assert _line(path) == (
        f"{path} cannot be read ('images' in it is not a NumPy array); write it anew"
    )


def test_lacking_arrays(tmp_path):
    path = tmp_path / "keys.npz"
    np.savez(path, labels=np.zeros(3, int))
    assert _line(path) == f"{path} has no array 'images', only: labels; save it with: {HOW}"
    np.savez(path, ids=np.zeros((3, 2)), labels=np.zeros(3, int))
    assert _line(path, ["ids", "mask"]) == (
        f"{path} has no array 'mask', only: ids, labels; save it with: "
        f"np.savez(path, ids=ids, mask=mask, labels=labels)"
    )
    assert _line(path, ["x"]) == (
        f"{path} has no array 'x', only: ids, labels; save it with: "
        f"np.savez(path, x=x, labels=labels)"
    )


@pytest.mark.parametrize(
    ("images", "labels", "text"),
    [
        (np.zeros((3, 2)), np.zeros(4, int), "{path} has 3 images but 4 labels"),
        (np.zeros((0, 2)), np.zeros(0, int), "{path} has no images in it; at least one is needed"),
        (
            np.zeros((2, 2)),
            np.zeros(2),
            "The labels in {path} are float64; they must be integers (class numbers from 0)",
        ),
        (
            np.zeros((2, 2)),
            np.array([True, False]),
            "The labels in {path} are bool; they must be integers (class numbers from 0)",
        ),
        (
            np.zeros((2, 2)),
            np.eye(2, 10, dtype=int),
            "The labels in {path} have shape [2, 10]; they must be one class number an image, "
            "shape [N] (of one-hot labels take argmax(axis=1); leave masks and boxes out: "
            "the outputs are then measured against the float model's)",
        ),
        (
            np.zeros((2, 2)),
            np.array([0, -1]),
            "The labels in {path} run from -1 to 0; class numbers are 0 to 65,535",
        ),
        (
            np.zeros((2, 2)),
            np.array([0, 2**63], np.uint64),
            "The labels in {path} run from 0 to 9223372036854775808; class numbers are 0 to 65,535",
        ),
        (
            np.array(["a", "b"]),
            np.zeros(2, int),
            "The images in {path} are <U1 [2]; they must be numbers of shape [N, ...]",
        ),
        (
            np.float32(1),
            np.zeros(2, int),
            "The images in {path} are float32 []; they must be numbers of shape [N, ...]",
        ),
    ],
)
def test_arrays_that_do_not_fit_get_one_clear_line(tmp_path, images, labels, text):
    path = tmp_path / "bad.npz"
    np.savez(path, images=images, labels=labels)
    assert _line(path) == text.format(path=path)


def test_class_names_that_do_not_fit(tmp_path):
    path = tmp_path / "names.npz"
    np.savez(path, images=np.zeros((2, 2)), labels=[0, 4], class_names=["a", "b"])
    assert _line(path) == (
        f"The class_names in {path} are <U1 [2]; they must be at least 5 strings, shape [classes]"
    )


class _Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_objects_are_refused_and_not_run(tmp_path):
    path, trace = tmp_path / "pickled.npz", tmp_path / "trace"
    np.savez(path, images=np.array([_Hostile(trace)], dtype=object), labels=np.zeros(1, int))
    assert _line(path) == (
        f"{path} holds Python objects, which are not read because they can run code; "
        "save plain arrays of numbers"
    )
    assert not trace.exists()


def test_absurd_array_size_is_not_believed(tmp_path):
    path = tmp_path / "absurd.npz"
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000000,), }"
    header += b" " * (117 - len(header)) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        archive.writestr("images.npy", content)
        archive.writestr("labels.npy", content)
    assert _line(path).startswith(f"{path} cannot be read (")


def header(descr: str, shape: str) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("descr", "shape", "said"),
    [
        ("'<f4'", "(4, 3)", "'images' in it needs 48 bytes and has 64"),
        ("'<f4'", "(-4, 3)", "'images' in it has the impossible shape [-4, 3]"),
        ("'<f4'", f"({2**62}, {2**62})", "bytes and has 64"),
        ("'bogus'", "(4, 3)", "the header of 'images' in it is damaged"),
        ("'<f4'", "(" * 3000, "the header of 'images' in it is damaged"),
        ("[" * 2000, "(4,)", "the header of 'images' in it is damaged"),
    ],
)
def test_headers_that_lie_are_told(tmp_path: Path, descr: str, shape: str, said: str) -> None:
    path = tmp_path / "odd.npz"
    np.savez(path, labels=np.zeros(4, int))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("images.npy", header(descr, shape) + bytes(64))
    assert said in _line(path)


def bomb(path: Path, rows: int) -> None:
    """So many images of zeros, a megabyte each when unpacked and a kilobyte here."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as stream:
            stream.write(header("'<f4'", f"({rows}, 512, 512)"))
            for _ in range(rows):
                stream.write(bytes(2**20))
        np.save(path.with_suffix(".npy"), np.zeros(rows, int))
        archive.write(path.with_suffix(".npy"), "labels.npy")


def test_bombs_are_told_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    bomb(path, 300)
    tracemalloc.start()
    try:
        assert "bytes to 314,572,800, which may be a bomb" in _line(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_only_the_images_that_are_wanted_are_read(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    bomb(path, 300)
    tracemalloc.start()
    try:
        assert load(str(path), first=2).images.shape == (2, 512, 512)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_first_images_are_those_of_the_whole(tmp_path: Path, order: str) -> None:
    path = tmp_path / "mine.npz"
    images = np.arange(5 * 4 * 3, dtype=np.float32).reshape(5, 4, 3)
    np.savez(path, images=np.asarray(images, order=order), labels=[3, 1, 0, 2, 2])
    found = load_npz(path, first=3)
    assert np.array_equal(found.images, images[:3])
    assert found.labels.tolist() == [3, 1, 0]
    assert found.class_names == ("0", "1", "2", "3")
    assert len(load_npz(path, first=9)) == len(load_npz(path)) == 5


def test_labels_may_be_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", images=np.zeros((3, 2, 4, 4), np.float32))
    found = load_npz(tmp_path / "plain.npz")
    assert len(found) == 3
    assert found.targets is None
    with pytest.raises(BadDataError) as caught:
        _ = found.labels
    assert str(caught.value) == ("plain.npz has no labels; save them with the rows as 'labels'")


def test_arrays_are_found_by_the_names_of_the_inputs(tmp_path: Path) -> None:
    path = tmp_path / "many.npz"
    ids, mask = np.arange(6).reshape(3, 2), np.ones((3, 2), np.int64)
    np.savez(path, ids=ids, mask=mask, more=np.zeros(7), labels=[1, 0, 1])
    found = load_npz(path, inputs=["mask", "ids"])
    assert list(found.arrays) == ["mask", "ids"]
    assert np.array_equal(found.arrays["ids"], ids)
    assert found.labels.tolist() == [1, 0, 1]


def test_a_lone_input_may_be_called_images(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    np.savez(path, images=np.ones((3, 2)), labels=[1, 0, 1])
    assert list(load_npz(path, inputs=["input.1"]).arrays) == ["images"]


def test_rows_that_are_not_equally_many_are_told(tmp_path: Path) -> None:
    path = tmp_path / "uneven.npz"
    np.savez(path, ids=np.zeros((3, 2)), mask=np.zeros((4, 2)))
    assert _line(path) == (
        f"The arrays in {path} have different numbers of rows (ids 3, mask 4); the first "
        f"dimension of each counts rows"
    )


def test_large_arrays_are_mapped_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    rows = np.arange(70 * 2**20 // 4, dtype=np.float32).reshape(-1, 1024)
    np.savez(path, images=rows)
    tracemalloc.start()
    try:
        found = load_npz(path)
        assert np.array_equal(found.images[-3:], rows[-3:])
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert isinstance(found.images, np.memmap)
