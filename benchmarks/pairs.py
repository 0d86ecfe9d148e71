"""Time what every two of ResNet8's layers cost together: ours, and the plain loop over pairs.

The loop applies both switches, writes the model, and evaluates it whole, for every variant that
ours measures. One run of each in this process; run it with: python -m benchmarks.pairs [IMAGES]
"""

import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import Pair, reference_pair

IMAGES = 1000
AIM = 3


def run(images: int = IMAGES) -> None:
    """Print the ratio of one run."""
    from quantscope.data import load_sample
    from quantscope.study.interactions import interactions

    sample = load_sample()
    chosen = sample.select(np.arange(images) % len(sample))
    with tempfile.TemporaryDirectory() as folder:
        pair = reference_pair(Path(folder))
        models = {"model": pair.quantized, "float_model": pair.float_model}
        warm = interactions(samples=chosen.take(10), mode="disable", **models)
        print(
            f"pairs of {pair.name}: {len(warm.layers)} layers, {len(warm.pairs)} pairs switched "
            f"off, reference execution, {images} images"
        )
        began = time.perf_counter()
        found = interactions(samples=chosen, mode="disable", most_seconds=None, **models)
        ours = time.perf_counter() - began
        began = time.perf_counter()
        losses = _loop(found.layers, chosen, pair, Path(folder))
        loop = time.perf_counter() - began
    for each in found.pairs:
        beyond = losses[each.first, each.second] - losses[each.first,] - losses[each.second,]
        assert each.loss is not None and np.isclose(each.loss.value, beyond + losses[()])
    print(f"  ours {ours:.1f} s, the loop {loop:.1f} s: {loop / ours:.2f} times faster (aim {AIM})")


def _loop(layers: tuple[str, ...], images: Any, pair: Pair, folder: Path) -> dict[Any, float]:
    """Give the loss of every variant: edit, write, open a session, evaluate all images."""
    from quantscope.edit import Editor, Off
    from quantscope.run import evaluate

    editor = Editor(pair.quantized, pair.float_model)
    path = folder / "variant.onnx"
    losses: dict[Any, float] = {}
    for switched in [(), layers, *((name,) for name in layers), *combinations(layers, 2)]:
        editor.apply([Off(name) for name in switched]).save(path)
        losses[switched] = -evaluate(
            path, images, execution="reference", measure="top1"
        ).score.value
        path.unlink()
    return losses


if __name__ == "__main__":
    run(*map(int, sys.argv[1:2]))
