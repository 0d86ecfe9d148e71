"""Small PyTorch files, and ways to change them that torch itself would not."""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
SAMPLES = "data/sample_inputs/model.pt"


class Small(torch.nn.Module):
    """A padded convolution of odd sizes, a residual, a pool and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)
        self.side = torch.nn.Conv2d(3, 5, 1)
        self.head = torch.nn.Linear(5, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)) + self.side(x)
        return self.head(y.mean(dim=(2, 3)))


def small() -> Small:
    torch.manual_seed(3)
    return Small().eval()


def save_small(path: Path, *, dynamic: bool = True) -> Path:
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},) if dynamic else None
    example = (torch.zeros(2, 3, 7, 9),)
    torch.export.save(torch.export.export(small(), example, dynamic_shapes=shapes), path)
    return path


def rewritten(
    source: Path, target: Path, changes: Mapping[str, bytes | Callable[[bytes], bytes] | None]
) -> Path:
    """The archive with members replaced, added, or left out (None)."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        root = old.namelist()[0].split("/")[0]
        names = {name.removeprefix(f"{root}/") for name in old.namelist()}
        for name in sorted(names | set(changes)):
            content: Any = old.read(f"{root}/{name}") if name in names else b""
            if name in changes:
                change = changes[name]
                content = change(content) if callable(change) else change
            if content is not None:
                new.writestr(f"{root}/{name}", content)
    return target


def json_change(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        value = json.loads(content)
        change(value)
        return json.dumps(value).encode()

    return changed


def text_change(old: str, new: str) -> Callable[[bytes], bytes]:
    """Replace one JSON string by another everywhere."""

    def changed(content: bytes) -> bytes:
        before, after = json.dumps(old), json.dumps(new)
        assert before.encode() in content
        return content.replace(before.encode(), after.encode())

    return changed
