"""Time a diagnosis without tries against one full comparison and one sensitivity sweep together.

All three in one process, in turn, on the same model and images. Run it with: python -m
benchmarks.diagnose [IMAGES]
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.models import reference_pair

IMAGES = 1000
ROUNDS = 5
AIM = 1.0


def run(images: int = IMAGES) -> None:
    """Print the ratio: below 1, a diagnosis takes less than the two together."""
    from quantscope.data import load_sample
    from quantscope.diagnose import diagnose
    from quantscope.run.compare import compare
    from quantscope.study.sensitivity import sensitivity

    with tempfile.TemporaryDirectory() as folder:
        pair = reference_pair(Path(folder))
        model, original = pair.quantized, pair.float_model
        samples = load_sample().take(images)
        ways: dict[str, Callable[[], Any]] = {
            "diagnose": lambda: diagnose(model, samples, float_model=original),
            "compare": lambda: compare(model, samples, float_model=original),
            "sensitivity": lambda: sensitivity(model, samples, float_model=original),
        }
        rounds = [{name: _seconds(way) for name, way in ways.items()} for _ in range(ROUNDS + 1)]
    # The first round opens libraries.
    taken = {name: [r[name] for r in rounds[1:]] for name in ways}
    ratios, cpu = (
        [r["diagnose"][at] / (r["compare"][at] + r["sensitivity"][at]) for r in rounds[1:]]
        for at in (0, 1)
    )
    print(f"diagnose {pair.name} without tries, {images} images")
    for name, seconds in taken.items():
        print(f"  {name}: {statistics.median(wall for wall, _ in seconds):.2f} s")
    print(
        f"  diagnose / (compare + sensitivity): {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}; aim at most {AIM:g}), "
        f"{statistics.median(cpu):.2f} of their CPU time"
    )


def _seconds(way: Callable[[], Any]) -> tuple[float, float]:
    """Give the wall time and the CPU time that it takes."""
    start = time.perf_counter(), time.process_time()
    way()
    return time.perf_counter() - start[0], time.process_time() - start[1]


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
