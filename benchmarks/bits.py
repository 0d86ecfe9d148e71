"""Time the map of bits: ours against a loop that quantizes and evaluates each pair of widths.

The loop does what the commands of each cell say: `quantize --weight-bits --activation-bits`, then
`evaluate` beside the float model; what is left where it measures the float model once is printed
too. The memory of a map is measured for few cells and for many. Run it with: python -m
benchmarks.bits [IMAGES]
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.models import ROOT

IMAGES = 1000
WIDTHS = (2, 3, 4, 5, 6, 7, 8)
AIM = 3
LOOPED = ((2, 8), (4, 4), (5, 3), (6, 6), (7, 2), (8, 5), (8, 8))
"""The cells of the 49 that the loop is timed with: it does the same for each."""


def run(images: int = IMAGES) -> None:
    """Print the ratio; every number comes from a process of its own, in turn."""
    count = len(WIDTHS)
    print(f"map of {count} x {count} bits of resnet8, reference execution, {images} images")
    ours, loop = measure("ours", images), measure("loop", images)
    cells = count * count
    looped = loop["seconds"] / len(LOOPED) * cells
    ratio, cpu = (
        loop[key] / len(LOOPED) * cells / (ours[key] * cells / ours["cells"])
        for key in ("seconds", "cpu_seconds")
    )
    print(f"  ours: {ours['seconds']:.1f} s for {ours['cells']} cells, float ones among them")
    print(f"  loop: {looped:.1f} s for {cells} cells (from {len(LOOPED)} of them)")
    print(f"  {ratio:.2f} times faster a cell, {cpu:.2f} times less CPU time (aim {AIM})")
    once = loop["cpu_seconds"] - loop["float_cpu_seconds"] * (1 - 1 / len(LOOPED))
    once *= ours["cells"] / ours["cpu_seconds"] / len(LOOPED)
    print(f"  where the loop measures the float model once: {once:.2f} times less CPU time")
    few, many = measure("few", images), measure("ours", images)
    print(
        f"  memory: {few['peak_mb']:.0f} MB at most for {few['cells']} cells, "
        f"{many['peak_mb']:.0f} MB for {many['cells']}"
    )


def measure(how: str, images: int) -> dict[str, Any]:
    """Run "ours", "few" or "loop" in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bits", how, str(images)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{how} with {images} images failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _images(count: int) -> Any:
    import numpy as np

    from quantscope.data import load_sample

    sample = load_sample()
    return sample.select(np.arange(count) % len(sample))


def _ours(images: Any, widths: tuple[int, ...]) -> tuple[int, float]:
    """Quantize once, as the command does, and measure every cell."""
    from quantscope.model import find_model
    from quantscope.quantize import PtqConfig, quantize_onnx
    from quantscope.study.bits import bit_map

    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.onnx"
        quantize_onnx(find_model("resnet8"), base, PtqConfig(activations="int8"))
        found = bit_map(base, images, float_model="resnet8", weights=widths, activations=widths)
    return len(found.cells), 0.0


def _loop(images: Any) -> tuple[int, float]:
    """Quantize and evaluate each of some pairs; give also the CPU time of the float model."""
    from quantscope.quantize import PtqConfig
    from quantscope.run import compare_evaluations, evaluate, evaluate_float, open_runnable
    from quantscope.study.bits import quantize_with_bits

    spent = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for weights, activations in LOOPED:
            path = Path(folder) / f"{weights}-{activations}.onnx"
            config = PtqConfig(activations="int8")
            quantize_with_bits(
                "resnet8", path, config, weight_bits=weights, activation_bits=activations
            )
            runnable = open_runnable(path, execution="reference")
            began = time.process_time()
            floats = evaluate_float(runnable, images, float_model="resnet8")
            spent += time.process_time() - began
            compare_evaluations(evaluate(runnable, images, floats=floats), floats)
    return len(LOOPED), spent


def _measured(how: str, count: int) -> dict[str, float]:
    images = _images(count)
    work = {
        "ours": lambda rows: _ours(rows, WIDTHS),
        "few": lambda rows: _ours(rows, WIDTHS[-1:]),
        "loop": _loop,
    }[how]
    began, cpu_began = time.perf_counter(), time.process_time()
    cells, float_seconds = work(images)
    return {
        "float_cpu_seconds": float_seconds,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "cells": cells,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("ours", "few", "loop"):
        print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]))))
    else:
        run(*map(int, sys.argv[1:2]))
