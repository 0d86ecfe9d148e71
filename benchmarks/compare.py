"""Time the comparison of all tensors: ours against onnxruntime's `qdq_loss_debug`.

The model is the reference one. The peer collects every activation of both models, matches them by
name and computes each error. It raises KeyError where a name has no match, so it is given only
those that have one. Run it with: python -m benchmarks.compare [IMAGES ...]
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.models import Pair, reference_pair

COUNTS = (1000, 4000)
ROUNDS = 5  # a machine with neighbours makes single ones noisy
PEER_BATCH = 100
AIMS = {("sqnr", 1000): 4, ("sqnr", 4000): 8, ("full", 1000): 2, ("full", 4000): 4}


def run(counts: tuple[int, ...] = COUNTS) -> None:
    """Print the ratios.

    Every number comes from a process of its own, ours and the peer's in turn.
    """
    with tempfile.TemporaryDirectory() as folder:
        pair = reference_pair(Path(folder), activations="uint8")
        print(f"comparison of {pair.name}, with its float model, reference execution")
        _report(pair, counts)


def _report(pair: Pair, counts: tuple[int, ...]) -> None:
    peaks: dict[tuple[str, int], float] = {}
    for count in counts:
        rounds = [
            {how: measure(how, count, pair) for how in ("peer", "sqnr", "full")}
            for _ in range(ROUNDS)
        ]
        for how in ("sqnr", "full"):
            ratios = [r["peer"]["seconds"] / r[how]["seconds"] for r in rounds]
            cpu = [r["peer"]["cpu_seconds"] / r[how]["cpu_seconds"] for r in rounds]
            aim = AIMS.get((how, count))
            print(
                f"  {count} images, {how}: {statistics.median(ratios):.2f} times faster "
                f"({min(ratios):.2f} to {max(ratios):.2f}; aim {aim}), "
                f"{statistics.median(cpu):.2f} times less CPU time, "
                f"{statistics.median(r[how]['seconds'] for r in rounds):.2f} s"
            )
        for how in ("peer", "full"):
            peaks[how, count] = statistics.median(r[how]["added_mb"] for r in rounds)
        share = peaks["full", count] / peaks["peer", count]
        print(
            f"  {count} images: {peaks['full', count]:.0f} MB added at the peak, the peer "
            f"{peaks['peer', count]:.0f} MB: {share:.3f} of it (aim 0.2)"
        )
    ours = [peaks["full", count] for count in counts]
    if len(ours) > 1:
        print(
            f"  peak at {counts[-1]} over that at {counts[0]}: {ours[-1] / ours[0]:.3f} (aim 1.1)"
        )


def measure(how: str, images: int, pair: Pair) -> dict[str, float]:
    """Run one of "peer", "sqnr" and "full" in a fresh process."""
    models = str(pair.quantized), str(pair.float_model)
    command = [sys.executable, "-m", "benchmarks.compare", how, str(images), *models]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{how} with {images} images failed: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _images(count: int) -> Any:
    import numpy as np

    from quantscope.data import load_sample

    sample = load_sample()
    # More than there are: the same ones again, which costs as much as others would.
    return sample.select(np.arange(count) % len(sample))


def _ours(detail: Any, images: Any, quantized: str, float_model: str) -> None:
    from quantscope.run.compare.compare import compare

    compare(quantized, images, float_model=float_model, detail=detail)


def peer_compares(images: Any, float_model: str, quantized: str, *, batch: int = PEER_BATCH) -> int:
    """Compare as onnxruntime's debugger does; give how many tensors it compared."""
    import numpy as np
    from onnxruntime.quantization import qdq_loss_debug as peer

    pixels = images.images
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for model in (quantized, float_model):
            path = str(Path(folder) / Path(model).name)
            peer.modify_model_output_intermediate_tensors(model, path)
            rows = (
                {"input": pixels[start : start + batch].astype(np.float32)}
                for start in range(0, len(pixels), batch)
            )
            found.append(peer.collect_activations(path, rows))
        matched = peer.create_activation_matching(*found)
        known = {name: match for name, match in matched.items() if "float" in match}
        return len(peer.compute_activation_error(known))


def status_mb(field: str, process: int | str = "self") -> float:
    """Read a field of a process's status in MB."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():  # not Linux: the peak is all that is known
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def _measured(how: str, count: int, *models: str) -> dict[str, float]:
    def work(images: Any) -> None:
        if how == "peer":
            peer_compares(images, models[1], models[0])
        else:
            _ours(how, images, *models)

    images = _images(count)  # the caller's, whoever compares: not counted
    work(_images(PEER_BATCH))  # nor what is loaded but once
    before = status_mb("VmRSS")
    began, cpu_began = time.perf_counter(), time.process_time()
    work(images)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "added_mb": max(status_mb("VmHWM") - before, 0.1),
    }


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in ("peer", "sqnr", "full"):
        print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])))
    else:
        run(tuple(map(int, sys.argv[1:])) or COUNTS)
