"""Images: archives that are damaged, lie about themselves or unpack to far too much."""

import io
import random
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

F = np.float32


def npz_case(seed: int, folder: Path) -> Sequence[object]:
    """One command with one archive."""
    rng = random.Random(f"npz {seed}")
    path = folder / "d.npz"
    rng.choice([_damaged, _odd_arrays, _headers, _bombs, _members])(path, rng)
    commands: list[Sequence[object]] = [
        ("evaluate", "resnet8-int8", "--data", "d.npz"),
        ("evaluate", "resnet8-int8", "--data", "d.npz", "--images", "2"),
        ("compare", "resnet8-int8", "--data", "d.npz", "--images", "2"),
        ("accumulators", "resnet8-int8", "--data", "d.npz", "--images", "2"),
        ("capture", "resnet8-int8", "--data", "d.npz", "-o", "c.npz"),
        ("whatif", "resnet8-int8", "--data", "d.npz", "--off", "weights", "--images", "2"),
        ("trace", "resnet8-int8", "--data", "d.npz", "--layer", "stem", "--at", "0,0,0"),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration-data", "d.npz"),
        ("study", "--preset", "ptq", "--out", "s", "--data", "d.npz", "--images", "0"),
    ]
    return rng.choice(commands)


def _good(path: Path, *, packed: bool = False, **more: object) -> None:
    arrays = {
        "images": np.linspace(-1, 1, 4 * 3072, dtype=F).reshape(4, 3, 32, 32),
        "labels": np.arange(4),
        **more,
    }
    (np.savez_compressed if packed else np.savez)(path, **arrays)


def _damaged(path: Path, rng: random.Random) -> None:
    _good(path, packed=rng.random() < 0.5)
    content = bytearray(path.read_bytes())
    if rng.random() < 0.2:
        del content[rng.randrange(len(content)) :]
    for _ in range(rng.randint(0, 6)):
        start = rng.choice([0, max(0, len(content) - 300)])
        place = min(start + rng.randrange(300), len(content) - 1)
        if content:
            content[place] = rng.randrange(256)
    path.write_bytes(content)


def _odd_arrays(path: Path, rng: random.Random) -> None:
    images = np.zeros((4, 3, 32, 32), F)
    odd = [
        {"images": np.full_like(images, rng.choice([np.nan, np.inf, 1e38]))},
        {"images": images[:0]},
        {"images": images[:, :, :0]},
        {"images": images[:, :, :5]},
        {"images": images.astype(rng.choice([np.float16, np.float64, np.longdouble, np.int64]))},
        {"images": images.astype(np.complex64)},
        {"images": np.array([{}], object)},
        {"images": np.asfortranarray(images)},
        {"images": images.astype(">f4")},
        {"images": np.zeros((4,) + (1,) * 31)},
        {"images": np.zeros(4, [("a", F), ("b", "U3")])},
        {"images": np.zeros((2, 3), "M8[s]")},
        {"labels": np.array([0, 1, 2, 2**62])},
        {"labels": np.array([-1, 1, 2, 3])},
        {"labels": np.zeros((4, 10))},
        {"labels": np.array(["a"] * 4)},
        {"labels": np.array(0)},
        {"class_names": np.array(["\x1b[2J", "<b>", "\u202e", "x" * 10_000])},
        {"class_names": np.array(["a"])},
        {"class_names": np.zeros((4, 4))},
        {"class_names": np.frombuffer(b"\xff" * 64, "<U4")},
    ]
    _good(path, **rng.choice(odd))


def _whole(name: str) -> bytes:
    """The array of this name as it should be."""
    buffer = io.BytesIO()
    arrays = {"images": np.zeros((4, 3, 32, 32), F), "labels": np.arange(4)}
    np.save(buffer, arrays.get(name, np.array(list("abcd"))))
    return buffer.getvalue()


def _header(descr: str, shape: str, fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def _npy(header: bytes, rng: random.Random, data: bytes = b"") -> bytes:
    version = rng.choice([(1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (9, 9)])
    size = 2 if version == (1, 0) else 4
    return b"\x93NUMPY" + bytes(version) + len(header).to_bytes(size, "little") + header + data


def _headers(path: Path, rng: random.Random) -> None:
    """Headers that are no header, or promise what is not there."""
    shape = rng.choice(
        ["(4,3,32,32)", "(-1,3)", "(1<<60,3)", f"({2**62},{2**62})", "(True,2)", "4", "(4.0,)",
         "None", "(" * 3000, "()" , "(0,0)", "(4," + "1," * 100 + ")", "(1000000000000,)"]
    )  # fmt: skip
    descr = rng.choice(["'<f4'", "'|O'", "'<U99999999'", "'|V0'", "[('a','<f4')]", "'bogus'", "7",
                        "[" * 2000, "'<f4', 'descr': 1", "('<f4', (2**20,))", "'|S0'"])  # fmt: skip
    header = _header(descr, shape, rng.choice(["False", "True", "2"]))
    texts = [header, header, header, "{}", "", "[" * 9000, "\n", "{'descr'", header * 500]
    with zipfile.ZipFile(path, "w") as archive:
        which = rng.choice(["images", "labels", "class_names"])
        for name in ("images", "labels", "class_names"):
            if name == which:
                archive.writestr(f"{name}.npy", _npy(rng.choice(texts).encode(), rng, b"\0" * 64))
            else:
                archive.writestr(f"{name}.npy", _whole(name))


def _bombs(path: Path, rng: random.Random) -> None:
    count = rng.choice([10_000, 40_000, 120_000])
    method = zipfile.ZIP_DEFLATED
    which = rng.choice(["images", "images", "labels", "class_names"])
    shape = {"images": f"({count}, 3, 32, 32)", "labels": f"({count * 3072},)"}
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name in ("images", "labels", "class_names"):
            if name == which:
                head = _header("'<f4'", shape.get(name, "(4,)"))
                if name == "class_names":
                    head = head.replace("<f4", f"<U{count * 768}")
                if name == "labels":
                    head = head.replace("<f4", "<i4")
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    stream.write(_npy(head.encode(), random.Random(3)))
                    for _ in range(count * 3072 * 4 // 2**20):
                        stream.write(b"\0" * 2**20)
                    stream.write(b"\0" * (count * 3072 * 4 % 2**20))
            else:
                archive.writestr(f"{name}.npy", _whole(name))


def _members(path: Path, rng: random.Random) -> None:
    """Archives of other things."""
    with zipfile.ZipFile(path, "w") as archive:
        match rng.randrange(6):
            case 0:
                for number in range(rng.choice([1, 20_000])):
                    archive.writestr(f"{number}.npy", b"")
            case 1:
                archive.writestr("images.npy", b"text")
            case 2:
                archive.writestr("images", b"")
                archive.writestr("images.npy", b"")
            case 3:
                archive.writestr("../images.npy", b"")
            case 4:
                buffer = io.BytesIO()
                np.save(buffer, np.zeros((4, 3, 32, 32), F))
                for name in ("images.npy", "labels.npy"):
                    method = rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
                    archive.writestr(name, buffer.getvalue(), method)
            case 5:
                archive.comment = b"PK\5\6" * 1000
