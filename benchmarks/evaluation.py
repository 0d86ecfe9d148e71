"""Measure evaluation throughput against a bare onnxruntime loop at its best batch size.

The bare loop is given its images as float32 already and keeps nothing; evaluation starts from uint8
pixels and ends with accuracy, loss, classes and confusion.
"""

import statistics
import time

import numpy as np
import onnxruntime as ort

from quantscope.data import load_sample
from quantscope.model import bundled_models
from quantscope.run import evaluate, open_runnable

BATCHES = (1, 8, 32, 64, 100, 200, 256, 500)
ROUNDS = 9


def seconds(work: object) -> float:
    began = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - began


def run() -> None:
    sample = load_sample()
    path = bundled_models()["resnet8"]
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = np.ascontiguousarray(sample.images, dtype=np.float32)

    def bare(batch: int) -> None:
        for start in range(0, len(images), batch):
            session.run(None, {"input": images[start : start + batch]})

    by_batch = {batch: min(seconds(lambda b=batch: bare(b)) for _ in range(4)) for batch in BATCHES}
    best = min(by_batch, key=lambda batch: by_batch[batch])
    classifier = open_runnable(path)
    # Alternating, so that a busy machine is busy for both; the median of the pairs' ratios.
    ratios = [
        seconds(lambda: bare(best)) / seconds(lambda: evaluate(classifier, sample))
        for _ in range(ROUNDS)
    ]
    print("evaluation: 1,000 images, bundled float ResNet8, runtime execution")
    print(f"  bare onnxruntime loop, best batch of {BATCHES}: {best}")
    print(
        f"  throughput of evaluate() against it: {statistics.median(ratios):.3f} "
        f"(median of {ROUNDS} pairs, {min(ratios):.3f} to {max(ratios):.3f}; aim 0.95)"
    )
