"""Studies: TOML files and result folders that somebody else wrote, or something damaged."""

import json
import os
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ARGUMENTS = ("--out", "s", "--data", "d.npz", "--workers", "1")


def study_case(seed: int, folder: Path) -> Sequence[object]:
    """A study of one configuration that is done already, or is done anew where that is damaged."""
    rng = random.Random(f"study {seed}")
    images = np.linspace(-1, 1, 4 * 3072, dtype=np.float32).reshape(4, 3, 32, 32)
    np.savez(folder / "d.npz", images=images, labels=np.arange(4))
    (folder / "p.toml").write_text(PLAN)
    if rng.random() < 0.3:
        (folder / "p.toml").write_bytes(_toml(rng))
        # What is right in it is not run: it could be a study of many configurations.
        return ["study", "p.toml", *ARGUMENTS, "--images", "0"]
    write_study(folder / "s")
    rng.choice([_row, _row, _row, _manifest, _places])(folder / "s", rng)
    return ["study", "p.toml", *ARGUMENTS]


PLAN = '[[config]]\nactivations = "int8"\ncalibration_images = 4\n'


def write_study(folder: Path) -> None:
    """Write the folder as the study leaves it."""
    for name, content in _finished().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@cache
def _finished() -> dict[str, bytes]:
    import tempfile

    from attack import run

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = np.linspace(-1, 1, 4 * 3072, dtype=np.float32).reshape(4, 3, 32, 32)
        np.savez(folder / "d.npz", images=images, labels=np.arange(4))
        (folder / "p.toml").write_text(PLAN)
        # Nothing is promised of the time that this study takes on a busy machine.
        done = run(["study", "p.toml", *ARGUMENTS], folder, patience=200)
        assert done.code == 0, done
        return {
            str(path.relative_to(folder / "s")): path.read_bytes()
            for path in (folder / "s").rglob("*")
            if path.is_file()
        }


_ODD = [None, True, 0, -1, 1.5, "text", "", [], {}, [1], {"a": 1}, "\x1b[2J<b>", 2**70, [[]], -0.0]


def _toml(rng: random.Random) -> bytes:
    texts = [
        "a = " + "[" * rng.choice([50, 5_000, 400_000]),
        "a = " + "{a=" * rng.choice([50, 5_000]),
        "[grid]\n" + "\n".join(f"{k} = [{', '.join(['true', 'false'] * 20)}]" for k in _OPTIONS),
        "[grid]\ncalibration_images = [" + ", ".join(map(str, range(1, 5000))) + "]\n"
        "calibration_seed = [" + ", ".join(map(str, range(12000))) + "]",
        "[base]\ncalibration_images = " + rng.choice(["-1", "0", "9" * 30, "1e400", "nan", "'x'"]),
        "[[config]]\n" + f"{rng.choice(_OPTIONS)} = {rng.choice(_TOML_VALUES)}",
        "[grid]\n" + f"{rng.choice(_OPTIONS)} = {rng.choice(_TOML_VALUES)}",
        "[base]\n" + f"{rng.choice(_OPTIONS)} = {rng.choice(_TOML_VALUES)}\n" + PLAN,
        rng.choice(["base", "grid", "config", "other"]) + f" = {rng.choice(_TOML_VALUES)}",
        "[[config]]\noverrides = " + rng.choice(_TOML_VALUES),
        "[[config]]\noverrides = [{layer = " + rng.choice(_TOML_VALUES) + "}]",
        "[[config]]\nexclude = " + rng.choice(_TOML_VALUES),
        "\ufeff" + PLAN,
        PLAN + "\0",
        "",
        "[[config]]",
        "a." * 3000 + "b = 1",
        PLAN * 3,
    ]
    content = rng.choice(texts).encode()
    if rng.random() < 0.2:
        hurt = bytearray(PLAN.encode())
        hurt[rng.randrange(len(hurt))] = rng.randrange(256)
        content = bytes(hurt)
    return content


_OPTIONS = (
    "framework", "format", "activations", "weights", "calibration", "per_channel", "percentile",
    "reduce_range", "symmetric_activations", "int8_kernels", "calibration_images", "observer",
    "exclude", "overrides", "histogram_bins", "calibration_seed",
)  # fmt: skip
_TOML_VALUES = (
    "1", "-1", "0.5", "inf", "nan", "true", '"text"', '""', "[]", "{}", "[1]", "['a']", "[[]]",
    "1979-05-27", "07:32:00", "[{}]", "[true]", "9223372036854775807", '"int8"', '["int8"]',
    '"\\u001b[2J"', "[{layer = 1}]", '"minmax"', "[1, 2, 3]",
)  # fmt: skip


def _row(study: Path, rng: random.Random) -> None:
    """Rows that are no JSON, or JSON that lacks or changes something anywhere inside."""
    path = rng.choice(sorted((study / "rows").iterdir()))
    row = json.loads(path.read_bytes())
    match rng.randrange(8):
        case 0:
            path.write_bytes(path.read_bytes()[: rng.randrange(len(path.read_bytes()))])
        case 1:
            path.write_text("[" * rng.choice([90, 3_000, 200_000]))
        case 2:
            path.write_text(json.dumps(rng.choice(_ODD)))
        case 3:
            path.write_bytes(b"\xff\xfe\0")
        case 4:
            path.unlink()
            _special(path, rng)
        case 5:
            path.rename(path.with_name("other.json"))
        case _:
            for _ in range(rng.randint(1, 2)):
                alter(row, rng)
            path.write_text(json.dumps(row))


def alter(row: Any, rng: random.Random) -> None:
    """Change one thing at any depth of a JSON value."""
    at = row
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = at[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
            at = inner
            continue
        if rng.random() < 0.4:
            del at[key]
        else:
            at[key] = rng.choice(_ODD)
        return


def _manifest(study: Path, rng: random.Random) -> None:
    path = study / "study.json"
    content = json.loads(path.read_bytes())
    match rng.randrange(5):
        case 0:
            path.write_text(json.dumps(rng.choice(_ODD)))
        case 1:
            path.write_text('{"of":' * rng.choice([90, 3_000, 200_000]))
        case 2:
            path.unlink()
            _special(path, rng)
        case 3:
            path.unlink()
        case _:
            alter(content, rng)
            path.write_text(json.dumps(content))


def _places(study: Path, rng: random.Random) -> None:
    """Something else stands where the study writes."""
    name = rng.choice(
        [".scratch", ".lock", "rows", "figures", "results.csv", "results.json", "report.md",
         "report.html", "."]
    )  # fmt: skip
    path = study / name
    if name == "." or (rng.random() < 0.5 and path.exists()):
        path.chmod(rng.choice([0, 0o100, 0o400, 0o500]))
        return
    if path.is_dir():
        path.rename(study / "elsewhere")
    else:
        path.unlink(missing_ok=True)
    _special(path, rng)


def _special(path: Path, rng: random.Random) -> None:
    made: list[Callable[[], object]] = [
        lambda: os.mkfifo(path),
        path.mkdir,
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to(path),
        lambda: path.symlink_to("/nowhere"),
        lambda: (path.write_text("{}"), path.chmod(0)),
        lambda: path.write_text(""),
    ]
    rng.choice(made)()
