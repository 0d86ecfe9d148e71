"""Recipes, overlays and the values of options."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostile_study import alter

DATA = ("--images", "2", "--no-sqnr")
RECIPE: dict[str, Any] = {
    "quantscope_recipe": 1,
    "base_model": "resnet8-int8",
    "base_digest": "0" * 64,
    "note": "",
    "edits": [{"kind": "scale", "tensor": "stem.out", "values": [0.1]}],
}
_NUMBERS = (
    "0", "-1", "1", "nan", "inf", "-inf", "1e400", "9" * 400, "0x10", "1_0", "", " ", "٣", "-0",
    "999999999999999999999", "2147483648", "1.5", "1e-400", "NaN", "0-99999999999999999999",
    "\x1b[2J", "1,2", "--", "-", "3-1",
)  # fmt: skip
_NAMES = (
    "", " ", "stem", "stem.out", "stack1.conv1", "no such", "\x1b[2J", "a" * 300, "a" * 200_000,
    "../x", "/", "a\nb", "<b>", "*", "weights", "activations", "\udcff", "\ud800", "名", "-x",
    "[/]",
)  # fmt: skip


def text_case(seed: int, folder: Path) -> Sequence[object]:
    """One command with one odd file of text, or odd values."""
    rng = random.Random(f"text {seed}")
    return rng.choice([_recipe, _recipe, _overlay, _values, _values])(rng, folder)


def _recipe(rng: random.Random, folder: Path) -> Sequence[object]:
    from quantscope.files import BUNDLED

    path = folder / "r.json"
    bundled = sorted((BUNDLED.parent / "recipes").glob("*.json"))
    value = json.loads(rng.choice(bundled).read_bytes()) if bundled else RECIPE
    path.write_text(json.dumps(value))
    _hurt(path, value, rng)
    more = rng.choice([(), ("--other-model",)])
    return ["whatif", "resnet8-int8", "--recipe", "r.json", *DATA, *more]


def _overlay(rng: random.Random, folder: Path) -> Sequence[object]:
    path = folder / "o.json"
    layer = {"name": "stem", "sqnr_db": 30.0, "macs": 3}
    value = {"layers": [layer, dict(layer, name="head")]}
    path.write_text(json.dumps(value))
    _hurt(path, value, rng)
    metric = rng.choice(["sqnr_db", "macs", "name", *_NAMES[:8]])
    return ["graph", "resnet8-int8", "-o", "g.svg", "--overlay", "o.json", "--metric", metric]


def _hurt(path: Path, value: Any, rng: random.Random) -> None:
    match rng.randrange(7):
        case 0:
            path.write_text("[" * rng.choice([99, 101, 5_000, 500_000]))
        case 1:
            path.write_text('{"edits":' * rng.choice([99, 5_000]))
        case 2:
            path.write_bytes(path.read_bytes()[: rng.randrange(len(path.read_bytes()) or 1)])
        case 3:
            path.write_bytes(bytes(rng.randrange(256) for _ in range(60)))
        case _:
            for _ in range(rng.randint(1, 3)):
                if isinstance(value, dict | list) and value:
                    alter(value, rng)
            path.write_text(json.dumps(value))


def _values(rng: random.Random, folder: Path) -> Sequence[object]:
    number, name = rng.choice(_NUMBERS), rng.choice(_NAMES)
    model = "resnet8-int8"
    commands: list[Sequence[object]] = [
        ("trace", model, "--layer", "stem", "--at", "0,0,0", "--image", number),
        ("trace", model, "--layer", "stem", "--at", number),
        ("trace", model, "--layer", "stem", "--at", f"{number},0,0", "--terms", number),
        ("trace", model, "--layer", name, "--at", "0,0,0"),
        ("capture", model, "-o", "c.npz", "--image", number),
        ("capture", model, "-o", "c.npz", "--layer", name),
        ("capture", model, "-o", name),
        ("evaluate", model, "--images", number),
        ("evaluate", model, "--images", "2", "--batch", number),
        ("evaluate", name),
        ("evaluate", model, "--data", name),
        ("evaluate", model, "--images", "2", "--against", name),
        ("compare", model, "--images", number),
        ("compare", model, "--images", "2", "--float", name),
        ("compare", model, "--images", "2", "--with", name),
        ("compare", model, "--images", "2", "--html", name),
        ("sensitivity", model, "--images", number),
        ("sensitivity", model, "--images", "2", "--mode", name),
        ("accumulators", model, "--images", number),
        ("inspect", name),
        ("inspect", model, "--layer", name),
        ("graph", model, "-o", name),
        ("graph", model, "-o", f"{name}.svg"),
        ("graph", name, "-o", "a.svg"),
        ("whatif", model, *DATA, "--set", f"stem.out.scale={number}"),
        ("whatif", model, *DATA, "--set", f"stem.out.zero_point={number}"),
        ("whatif", model, *DATA, "--set", name),
        ("whatif", model, *DATA, "--range", f"stem.out={number},{rng.choice(_NUMBERS)}"),
        ("whatif", model, *DATA, "--range", name),
        ("whatif", model, *DATA, "--off", name),
        ("whatif", model, *DATA, "--recipe", name),
        ("whatif", model, *DATA, "--off", "stem", "--save-recipe", name),
        ("quantize", "resnet8", "-o", name),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration-images", number),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration-seed", number,
         "--calibration-images", "2"),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration", "percentile", "--percentile",
         number, "--calibration-images", "2"),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration", "entropy", "--histogram-bins",
         number, "--calibration-images", "2"),
        ("quantize", "resnet8", "-o", "q.onnx", "--exclude", name, "--calibration-images", "2"),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration-data", name),
        ("study", name, "--out", "s"),
        ("study", "--preset", name, "--out", "s"),
        ("study", "--preset", "ptq", "--out", "s", "--images", number if number != "1" else "0"),
        ("study", "--preset", "ptq", "--out", name, "--images", "0"),
        ("study", "--preset", "ptq", "--out", "s", "--dask", name),
        ("study", "--preset", "ptq", "--out", "s", "--images", "0", "--workers", number),
        ("import-keras", name, "-o", "k.onnx"),
        ("data", "fetch", "--from", name),
        ("play", name),
        ("play", model, "--port", number),
        (name, model),
        ("--debug", "evaluate", model, "--images", "2"),
    ]  # fmt: skip
    words = [str(word) for word in rng.choice(commands)]
    # The system passes neither null bytes nor very long words.
    return [word[:100_000] for word in words]
