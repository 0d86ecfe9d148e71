"""Keras files: damaged, made of other things, or pointing elsewhere."""

import random
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import h5py
import numpy as np
from keras_files import write_keras


def keras_case(seed: int, folder: Path) -> Sequence[object]:
    """`import-keras` of one file."""
    rng = random.Random(f"hdf5 {seed}")
    path = folder / "k.h5"
    content = bytearray(_original())
    path.write_bytes(content)
    if rng.random() < 0.1:
        del content[rng.randrange(len(content)) :]
        path.write_bytes(content)
    elif rng.random() < 0.5:
        # Most of the file is weights, whose damage nothing can tell; structure is what is hurt.
        places = rng.choice([range(200), range(20_000), range(len(content))])
        for place in rng.choices(places, k=rng.randint(1, 20)):
            content[place] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
        path.write_bytes(content)
    else:
        with h5py.File(path, "r+") as file:
            _alter(file, rng, folder)
    return ["import-keras", "k.h5", "-o", "k.onnx"]


def _alter(file: h5py.File, rng: random.Random, folder: Path) -> None:  # noqa: PLR0912
    name = rng.choice(_arrays(file))
    array = np.asarray(file[name])
    parent = file[name].parent
    (folder / "secret").write_bytes(b"secret" * 10_000)
    choice = rng.randrange(13)
    if choice == 0:
        array.ravel()[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -np.inf, -1e9, 3e38])
        file[name][...] = array
        return
    if choice == 1:
        deep = file
        for _ in range(rng.choice([50, 500])):
            deep = deep.create_group("a")
        return
    if choice == 2:
        for number in range(rng.choice([10, 3_000])):
            parent[f"more {number}"] = parent
        return
    if choice == 3:
        parent.parent["loop"] = parent.parent
        return
    del file[name]
    match choice:
        case 4:
            elsewhere = [(str(folder / "secret"), 0, array.nbytes)]
            file.create_dataset(name, array.shape, array.dtype, external=elsewhere)
        case 5:
            file[name] = h5py.ExternalLink(str(folder / "other.h5"), "/x")
        case 6:
            file[name] = h5py.SoftLink(rng.choice(["/", f"/{name}", "/nowhere"]))
        case 7:
            file[name] = rng.choice([array[..., :1], array.astype("S4"), array.astype(int), 1.0])
        case 8:
            file.create_dataset(name, (2**40,), "f4", chunks=(2**20,))
        case 9:
            file.create_group(name)
        case 10:
            layout = h5py.VirtualLayout(array.shape, array.dtype)
            layout[...] = h5py.VirtualSource(str(folder / "other.h5"), "x", array.shape)
            file.create_virtual_dataset(name, layout)
        case 11:
            file.create_dataset(name, (3,), h5py.special_dtype(vlen=np.float32))
        case 12:
            # As large as it should be, and a kilobyte on disk.
            file.create_dataset(name, array.shape, array.dtype, chunks=array.shape, compression=9)


def _arrays(file: h5py.File) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
    return sorted(found)


@cache
def _original() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_keras(Path(folder) / "k.h5").read_bytes()
