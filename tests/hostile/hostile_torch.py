"""Files of PyTorch's and safetensors."""

import json
import random
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from hostile_study import alter

from quantscope.model import bundled_models


def torch_case(seed: int, folder: Path) -> Sequence[object]:
    """One command on one file."""
    rng = random.Random(f"torch {seed}")
    images = np.linspace(-1, 1, 4 * 3 * 63, dtype=np.float32).reshape(4, 3, 7, 9)
    np.savez(folder / "d.npz", images=images, labels=np.arange(4))
    if rng.random() < 0.3:
        return _safetensors(rng, folder)
    path = folder / rng.choice(["m.pt2", "m.pt", "m.pth"])
    content = _program()
    path.write_bytes(content)
    if rng.random() < 0.4:
        hurt = bytearray(content)
        if rng.random() < 0.3:
            del hurt[rng.randrange(len(hurt)) :]
        for _ in range(rng.randint(0, 8)):
            hurt[rng.randrange(len(hurt) or 1)] = rng.randrange(256)
        path.write_bytes(hurt)
    else:
        _rewrite(path, rng)
    commands = [
        ("inspect", path.name),
        ("inspect", path.name, "--json"),
        ("graph", path.name, "-o", "g.svg"),
        ("whatif", path.name, "--off", "weights", "--data", "d.npz", "--images", "2"),
        ("evaluate", path.name, "--data", "d.npz", "--images", "2"),
        ("compare", path.name, "--data", "d.npz", "--images", "2", "--float", path.name),
        ("capture", path.name, "-o", "c.npz", "--data", "d.npz"),
    ]
    return rng.choice(commands)


def _rewrite(path: Path, rng: random.Random) -> None:
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    names = sorted(members)
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(names)
        if name.endswith(".json") and rng.random() < 0.8:
            value = json.loads(members[name])
            for _ in range(rng.randint(1, 3)):
                alter(value, rng)
            members[name] = json.dumps(value).encode()
        else:
            texts = [b"", b"\0" * 100, b"[" * 200_000, b'{"a":' * 3000, b"null", b"\x80\x04."]
            members[name] = rng.choice(texts)
        if rng.random() < 0.1:
            del members[name]
            names.remove(name)
    with zipfile.ZipFile(path, "w", rng.choice([0, 0, zipfile.ZIP_DEFLATED])) as new:
        for name, content in members.items():
            new.writestr(name, content)


def _safetensors(rng: random.Random, folder: Path) -> Sequence[object]:
    path = folder / "m.safetensors"
    content = bytearray(bundled_models()["resnet8-torch"].read_bytes())
    length = int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8 : 8 + length]))
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            alter(header, rng)
        text = rng.choice([json.dumps(header).encode()] * 5 + [b"[" * 50_000, b"{}", b""])
        size = rng.choice([len(text)] * 4 + [0, 2**40, 2**63])
        content[: 8 + length] = size.to_bytes(8, "little") + text
    else:
        for _ in range(rng.randint(0, 8)):
            content[rng.randrange(min(len(content), 4000))] = rng.randrange(256)
        if rng.random() < 0.3:
            del content[rng.randrange(len(content)) :]
    path.write_bytes(content)
    commands = [
        ("inspect", "m.safetensors"),
        ("evaluate", "m.safetensors", "--images", "2"),
        ("quantize", "m.safetensors", "-o", "q.pt2", "--calibration-data", "no.npz"),
        ("study", "--preset", "ptq", "--out", "s", "--torch-model", "m.safetensors",
         "--images", "0"),
        ("capture", "m.safetensors", "-o", "c.npz"),
    ]  # fmt: skip
    return rng.choice(commands)


@cache
def _program() -> bytes:
    """Made in a process of its own, so that torch's threads are not forked."""
    import subprocess
    import sys

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.pt2"
        code = (
            "import sys; from pathlib import Path; from torch_archives import save_small; "
            f"save_small(Path({str(path)!r}))"
        )
        where = Path(__file__).parents[1] / "support"
        subprocess.run([sys.executable, "-c", code], cwd=where, check=True, capture_output=True)
        return path.read_bytes()
