"""Keras files of somebody else's: read for their numbers, and for nothing else."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from in_process import refused, run
from keras_files import write_keras

SECRET = b"a secret of this machine " * 5_000
KERNEL = "model_weights/conv2d/conv2d/kernel:0"
VARIANCE = "model_weights/batch_normalization/batch_normalization/moving_variance:0"
GAMMA = "model_weights/batch_normalization/batch_normalization/gamma:0"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_keras(tmp_path / "k.h5")


def line(path: Path) -> str:
    text = refused("import-keras", path, "-o", path.with_name("k.onnx"))
    assert sorted(p.suffix for p in path.parent.iterdir()) in ([".h5"], ["", ".h5"])
    return text


def changed(path: Path, name: str, put: Callable[[h5py.File], object]) -> str:
    with h5py.File(path, "r+") as file:
        del file[name]
        put(file)
    return line(path)


def test_a_file_as_keras_writes_it_is_read(path: Path) -> None:
    assert run("import-keras", path, "-o", path.with_name("k.onnx")).returncode == 0


def test_arrays_in_other_files_are_not_followed(path: Path) -> None:
    (path.parent / "secret").write_bytes(SECRET)
    shape = (3, 3, 3, 16)

    def stored_elsewhere(file: h5py.File) -> None:
        place = [(str(path.parent / "secret"), 0, 4 * int(np.prod(shape)))]
        file.create_dataset(KERNEL, shape, "f4", external=place)

    assert "conv2d/kernel is kept in another file" in changed(path, KERNEL, stored_elsewhere)

    def linked(file: h5py.File) -> None:
        file[KERNEL] = h5py.ExternalLink(str(path.parent / "other.h5"), "/x")

    assert "it is missing" in changed(path, KERNEL, linked)

    def virtual(file: h5py.File) -> None:
        layout = h5py.VirtualLayout(shape, "f4")
        layout[...] = h5py.VirtualSource(str(path.parent / "other.h5"), "x", shape)
        file.create_virtual_dataset(KERNEL, layout)

    assert "conv2d/kernel is kept in another file" in changed(path, KERNEL, virtual)


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [
        (KERNEL, np.nan, "conv2d/kernel has values that are NaN or infinite"),
        (GAMMA, np.inf, "batch_normalization/gamma has values that are NaN or infinite"),
        (VARIANCE, -1.0, "batch_normalization/moving_variance is negative (-1)"),
        (GAMMA, 3e38, "with its batch norm folded in, stem.weight is infinite"),
    ],
)
def test_numbers_that_no_network_has_are_refused(
    path: Path, name: str, number: float, said: str
) -> None:
    with h5py.File(path, "r+") as file:
        file[name][...] = number
    assert said in line(path)


def test_what_is_not_an_array_of_floats_is_refused(path: Path) -> None:
    def integers(file: h5py.File) -> None:
        file[KERNEL] = np.zeros((3, 3, 3, 16), int)

    assert "conv2d/kernel is int64, not float" in changed(path, KERNEL, integers)

    def huge(file: h5py.File) -> None:
        file.create_dataset(KERNEL, (2**40,), "f4", chunks=(2**20,))

    assert "found [1099511627776]" in changed(path, KERNEL, huge)

    def unpacked_with_much_else(file: h5py.File) -> None:
        data = np.zeros((3, 3, 3, 16), np.float32)
        chunks, most = (16, 1024, 256, 8), (None,) * 4
        file.create_dataset(KERNEL, data=data, maxshape=most, chunks=chunks, compression=1)

    assert "is stored in chunks of [16, 1024, 256, 8]" in changed(
        path, KERNEL, unpacked_with_much_else
    )


def test_groups_that_hold_themselves_end(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        group = file["model_weights/conv2d/conv2d"]
        for number in range(500):
            group[f"a{number}"] = group
        del group["kernel:0"]
    assert "conv2d/kernel should have shape [3, 3, 3, 16], it is missing" in line(path)


@pytest.mark.parametrize("cut", [0, 8, 100, 2_000, 50_000])
def test_files_that_are_cut_short_are_one_line(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:cut])
    assert "is not a readable HDF5 file" in line(path)
