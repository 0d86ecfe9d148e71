"""Time each path that exists for speed alone, on and off: what it gains is why it may stay.

What is compared is quantscope with itself, so that the ratio says what one path is worth. Both
ways give the same numbers; tests hold that. Every time comes from a process of its own, on and off
in turn. Run it with: python -m benchmarks.speed_paths [NAME ...]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

IMAGES = 1000
ROUNDS = 5
_NEVER = 1 << 62


@dataclass(frozen=True)
class SpeedPath:
    """One path: what it speeds up, and where a stand-in that does without it is put."""

    task: str
    off: str
    stand_in: Any


PATHS = {
    "faster float kernels": SpeedPath(
        "compare", "quantscope.run.onnx.compare.joint_run.FEWEST_IMAGES", _NEVER
    ),
    "batches in pieces": SpeedPath(
        "whatif", "quantscope.run.onnx.suffix.part.may_split", lambda *_, **__: False
    ),
    "two programs in turns": SpeedPath(
        "compare_torch",
        "quantscope.run.torch.joint_programs.JointPrograms.check",
        lambda programs, *_: setattr(programs, "_as_stated", True),
    ),
    "values dropped early": SpeedPath(
        "compare_torch",
        "quantscope.run.torch.schedule._with_drops",
        lambda actions, *_: actions,
    ),
    "freed memory kept": SpeedPath(
        "compare_torch", "quantscope.run.torch.joint_run.keep_freed_memory", lambda: None
    ),
}


def run(names: tuple[str, ...] = tuple(PATHS)) -> None:
    """Print how much longer each task takes without its path."""
    print(f"paths for speed, {IMAGES} images: the time without one against the time with it")
    with tempfile.TemporaryDirectory() as folder:
        _make_models(Path(folder))
        for name in names:
            rounds = [[_process(name, way, folder) for way in ("off", "on")] for _ in range(ROUNDS)]
            for part in rounds[0][0]:
                seconds, cpu = (
                    sorted(off[part][what] / on[part][what] for off, on in rounds)
                    for what in ("seconds", "cpu_seconds")
                )
                print(
                    f"  {name}, {part}: {statistics.median(seconds):.2f} times the time "
                    f"({seconds[0]:.2f} to {seconds[-1]:.2f}), "
                    f"{statistics.median(cpu):.2f} times the CPU time"
                )


def _make_models(folder: Path) -> None:
    from quantscope.model import bundled_models
    from quantscope.quantize import PtqConfig, quantize_torch

    config = PtqConfig(framework="torch", torch_quantizer="quantscope")
    quantize_torch(bundled_models()["resnet8-torch"], folder / "program.pt2", config)


def _process(name: str, way: str, folder: str) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.speed_paths", "--one", name, way, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} {way} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(name: str, way: str, folder: str) -> dict[str, dict[str, float]]:
    path = PATHS[name]
    if way == "on":
        return _TASKS[path.task](Path(folder))
    with mock.patch(path.off, path.stand_in):
        return _TASKS[path.task](Path(folder))


def _timed(do: Callable[[], object]) -> dict[str, float]:
    started, cpu = time.perf_counter(), time.process_time()
    do()
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
    }


def _compare(model: str | Path) -> dict[str, dict[str, float]]:
    from quantscope.data import load_sample
    from quantscope.model import open_model
    from quantscope.run.compare.compare import compare

    opened, images = open_model(model), load_sample()
    compare(opened, images.take(8))  # reads the files and loads what runs them
    return {
        "SQNRs": _timed(lambda: compare(opened, images, detail="sqnr")),
        "all numbers": _timed(lambda: compare(opened, images)),
    }


def _what_if() -> dict[str, dict[str, float]]:
    from quantscope.data import load_sample
    from quantscope.edit import SetScale
    from quantscope.run.whatif.whatif import WhatIf

    what_if = WhatIf("resnet8-int8", load_sample())
    first = _timed(lambda: what_if.answer([], full=True))
    what_if.answer([SetScale("stem.out", factor=0.9)], full=True)

    def edit(tensor: str) -> Callable[[], object]:
        edits = [SetScale(tensor, factor=0.5)]
        return lambda: what_if.answer(edits, full=True, kernels=False)

    return {
        "first answer": first,
        "an edit of stem.out": _timed(edit("stem.out")),
        "an edit of stack3.conv1.out": _timed(edit("stack3.conv1.out")),
    }


_TASKS: dict[str, Callable[[Path], dict[str, dict[str, float]]]] = {
    "compare": lambda *_: _compare("resnet8-uint8"),
    "compare_torch": lambda folder: _compare(folder / "program.pt2"),
    "whatif": lambda *_: _what_if(),
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(_one(*sys.argv[2:])))
    else:
        run(tuple(sys.argv[1:]) or tuple(PATHS))
