"""Files that cannot be read, have no end, or wait for ever, wherever a command takes one."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

DATA = ("--data", "d.npz", "--images", "2")


def place_case(seed: int, folder: Path) -> Sequence[object]:
    """One command, one of whose files is something else: all of them in turn."""
    os.environ["QUANTSCOPE_CACHE"] = str(folder / "cache")
    (words, name), place = cases()[seed]
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    PLACES[place](path)
    if place == "long":
        long = path.with_name("n" * 300 + path.suffix).relative_to(folder)
        return [str(long) if word == name else word for word in words]
    return words


COMMANDS: list[tuple[Sequence[str], str]] = [
    *(
        ((*words, f"in/m{suffix}", *more), f"in/m{suffix}")
        for suffix in (".onnx", ".pt2", ".safetensors", ".pt", "")
        for words, more in [
            (("inspect",), ()),
            (("graph",), ("-o", "g.svg")),
            (("evaluate",), ("--images", "2")),
            (("compare",), ("--images", "2")),
            (("compare", "resnet8-int8", "--images", "2", "--float"), ()),
            (("compare", "resnet8-int8", "--images", "2", "--with"), ()),
            (("capture",), ("-o", "c.npz")),
            (("trace",), ("--layer", "stem", "--at", "0,0,0")),
            (("accumulators",), ()),
            (("sensitivity",), ("--images", "2")),
            (("whatif",), ("--images", "2", "--off", "weights")),
            (("quantize",), ("-o", "q.onnx")),
            (("study", "--preset", "ptq", "--out", "s", "--model"), ()),
            (("study", "--preset", "ptq", "--out", "s", "--torch-model"), ()),
            (("play",), ()),
            (("import-keras",), ("-o", "k.onnx")),
        ]
    ),
    (("import-keras", "in/k.h5", "-o", "k.onnx"), "in/k.h5"),
    (("evaluate", "resnet8-int8", "--data", "in/d.npz"), "in/d.npz"),
    (("compare", "resnet8-int8", "--data", "in/d.npz"), "in/d.npz"),
    (("capture", "resnet8-int8", "--data", "in/d.npz", "-o", "c.npz"), "in/d.npz"),
    (("quantize", "resnet8", "-o", "q.onnx", "--calibration-data", "in/d.npz"), "in/d.npz"),
    (("play", "--data", "in/d.npz"), "in/d.npz"),
    (("whatif", "resnet8-int8", "--images", "2", "--recipe", "in/r.json"), "in/r.json"),
    (("graph", "resnet8", "-o", "g.svg", "--overlay", "in/o.json", "--metric", "a"), "in/o.json"),
    (("study", "in/p.toml", "--out", "s"), "in/p.toml"),
    (("study", "--preset", "ptq", "--out", "in/s", "--images", "0"), "in/s"),
    (("study", "--preset", "ptq", "--out", "in/s", "--images", "0"), "in/s/study.json"),
    (("data", "fetch", "--from", "in/c.tar.gz"), "in/c.tar.gz"),
    (("data", "fetch", "--from", "in"), "in/data_batch_1"),
    (("data", "info"), "cache"),
    (("data", "info"), "cache/cifar10"),
    (("data", "info"), "cache/cifar10/train_images.npy"),
    (("evaluate", "resnet8-int8", "--data", "full", "--images", "2"), "cache/cifar10"),
    (("evaluate", "resnet8-int8", "--data", "full"), "cache/cifar10/test_images.npy"),
    (("evaluate", "resnet8-int8", "--data", "full"), "cache/cifar10/test_labels.npy"),
    (("quantize", "resnet8", "-o", "out/q.onnx", "--calibration-images", "2"), "out/q.onnx"),
    (("quantize", "resnet8", "-o", "out/q.onnx", "--calibration-images", "2"), "out"),
    (("graph", "resnet8", "-o", "out/g.svg", "--force"), "out/g.svg"),
    (("capture", "resnet8-int8", "-o", "out/c.npz", "--force"), "out/c.npz"),
]


def cases() -> list[tuple[tuple[Sequence[str], str], str]]:
    """Every command with every place; those that most people meet come first."""
    met = ("locked", "locked folder", "pipe", "zeros", "long")
    order = [*met, *(place for place in PLACES if place not in met)]
    return [(command, place) for place in order for command in COMMANDS]


def _locked(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


def _in_locked_folder(path: Path) -> None:
    path.write_bytes(b"x")
    path.parent.chmod(0)


def _listed_not_searched(path: Path) -> None:
    path.write_bytes(b"x")
    path.parent.chmod(0o400)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 * 2**30)


def _below_a_file(path: Path) -> None:
    if path.parent.name == "in":
        path.parent.rmdir()
        path.parent.write_bytes(b"x")
    else:
        path.write_bytes(b"x")


PLACES: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "empty": lambda path: path.write_bytes(b""),
    "locked": _locked,
    "locked folder": _in_locked_folder,
    "unsearchable folder": _listed_not_searched,
    "folder": lambda path: path.mkdir(),
    "locked folder itself": lambda path: path.mkdir(mode=0),
    "pipe": os.mkfifo,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "random": lambda path: path.symlink_to("/dev/urandom"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "memory": lambda path: path.symlink_to("/proc/self/mem"),
    "proc": lambda path: path.symlink_to("/proc/self/environ"),
    "loop": lambda path: path.symlink_to(path),
    "dangling": lambda path: path.symlink_to("/nowhere/at/all"),
    "sparse": _sparse,
    "below a file": _below_a_file,
    "long": lambda _: None,
}
