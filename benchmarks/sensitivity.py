"""Time sensitivity, disable-one over all layers: ours, a naive loop, AIMET's QuantAnalyzer.

The loop rebuilds the model for each of our rows and runs all of it with the same kernels. AIMET is
an optional peer in an environment of its own; see `benchmarks.aimet_peer`. Run it with: python -m
benchmarks.sensitivity [IMAGES]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import aimet_peer
from benchmarks.models import ROOT, Pair, reference_pair

IMAGES = 1000
ROUNDS = 3
AIMET_BATCH = 250  # the quickest of 32, 100 and 250
AIMS = {"naive": 2, "aimet": 5}


def run(images: int = IMAGES) -> None:
    """Print the ratios.

    Every number comes from a process of its own, ours and the peers' in turn.
    """
    with tempfile.TemporaryDirectory() as folder:
        pair = reference_pair(Path(folder))
        print(f"sensitivity of {pair.name}, disable-one, reference execution, {images} images")
        arrays = _arrays(Path(folder), images)
        peers = ["naive", *(["aimet"] if _aimet_python() else [])]
        rounds = [
            {how: measure(how, images, pair, arrays) for how in ("ours", *peers)}
            for _ in range(ROUNDS)
        ]
    ours = [r["ours"] for r in rounds]
    print(
        f"  ours: {statistics.median(o['seconds'] for o in ours):.2f} s for {ours[0]['rows']} rows"
    )
    for peer in peers:
        _report(peer, rounds)
    if "aimet" not in peers:
        print(f"  aimet: not measured; {aimet_peer.HOW_TO_SET_UP}")


def _report(peer: str, rounds: list[dict[str, dict[str, Any]]]) -> None:
    ratios = [r[peer]["seconds"] / r["ours"]["seconds"] for r in rounds]
    cpu = [r[peer]["cpu_seconds"] / r["ours"]["cpu_seconds"] for r in rounds]
    first = rounds[0][peer]
    print(
        f"  {peer}: {statistics.median(ratios):.2f} times faster "
        f"({min(ratios):.2f} to {max(ratios):.2f}; aim {AIMS[peer]}), "
        f"{statistics.median(cpu):.2f} times less CPU time, "
        f"{statistics.median(r[peer]['seconds'] for r in rounds):.2f} s for {first['rows']} rows"
    )
    if peer == "aimet":
        print(
            f"    aimet-onnx {first['aimet_onnx']}: per-layer analysis only, on an open session; "
            f"{first['preparation_seconds']:.1f} s of loading and calibration not counted"
        )


def measure(how: str, images: int, pair: Pair, arrays: Path) -> dict[str, Any]:
    """Run "ours", "naive" or "aimet" in a fresh process."""
    if how == "aimet":
        script = str(ROOT / "benchmarks" / "aimet_peer.py")
        command = [_aimet_python(), script, str(pair.float_model), str(arrays), str(AIMET_BATCH)]
    else:
        models = str(pair.quantized), str(pair.float_model)
        command = [sys.executable, "-m", "benchmarks.sensitivity", how, str(images), *models]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{how} with {images} images failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _aimet_python() -> str:
    return os.environ.get(aimet_peer.PYTHON_VARIABLE, "")


def _images(count: int) -> Any:
    import numpy as np

    from quantscope.data import load_sample

    sample = load_sample()
    return sample.select(np.arange(count) % len(sample))


def _arrays(folder: Path, count: int) -> Path:
    """Write what the peer cannot load by itself: images, labels, calibration images."""
    import numpy as np

    from quantscope.data import calibration_set

    images, calibration = _images(count), calibration_set(256, 0)
    path = folder / "images.npz"
    np.savez(
        path,
        images=images.images.astype(np.float32),
        labels=images.labels,
        calibration=calibration.images.astype(np.float32),
    )
    return path


def _ours(images: Any, quantized: str, float_model: str) -> int:
    from quantscope.study.sensitivity.sensitivity import sensitivity

    return len(sensitivity(quantized, images, float_model=float_model).rows)


def _naive(layers: list[str], images: Any, quantized: str, float_model: str) -> int:
    """Measure the base and every row: edit, open a session, evaluate all images."""
    from quantscope.edit import Editor, Off
    from quantscope.run import compare_evaluations, evaluate

    editor = Editor(quantized, float_model)
    evaluate(float_model, images, execution="reference")
    base = evaluate(quantized, images, execution="reference")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "variant.onnx"
        for layer in layers:
            editor.apply([Off(layer)]).save(path)
            compare_evaluations(evaluate(path, images, execution="reference"), base)
    return len(layers)


def _measured(how: str, count: int, *models: str) -> dict[str, float]:
    from quantscope.study.sensitivity.sensitivity import sensitivity

    few = _images(10)
    layers = [r.layer for r in sensitivity(models[0], few, float_model=models[1]).rows]

    def work(images: Any) -> int:
        return _naive(layers, images, *models) if how == "naive" else _ours(images, *models)

    images = _images(count)
    work(few)  # what is loaded but once is not counted
    began, cpu_began = time.perf_counter(), time.process_time()
    rows = work(images)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "rows": rows,
    }


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in ("ours", "naive"):
        print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])))
    else:
        run(*map(int, sys.argv[1:2]))
