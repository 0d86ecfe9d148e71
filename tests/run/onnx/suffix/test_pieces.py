"""Batches run in pieces only where that gives a whole run's bits."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from suffix_edits import bypassed, first_of, nudged, quantized_at, whole_run
from tiny_qdq import TinyQdq, images_of

from quantscope.data import load_sample
from quantscope.model import bundled_models
from quantscope.run.onnx.suffix.runner import SuffixRunner

RNG = np.random.default_rng(5)
TERMS = 600


def weight(model: TinyQdq, name: str, *shape: int) -> str:
    return model.stored(name, RNG.integers(-99, 99, shape).astype(np.int8), 0.0123)


def mixing(model: TinyQdq, x: str) -> str:
    """What is left of an image when the mean of its batch is taken off."""
    axes = model.constant("axes", np.array([0]))
    mean = model.node("ReduceMean", [x, axes], "mean")
    return model.node(
        "MatMul", [model.node("Sub", [x, mean], "left"), weight(model, "w", 40, 3)], "y"
    )


def in_pairs(model: TinyQdq, x: str) -> str:
    """Takes no odd number of images, and lets two meet."""
    pairs = model.node("Reshape", [x, model.constant("two", np.array([-1, 80]))], "pairs")
    made = model.node("MatMul", [pairs, weight(model, "w", 80, 6)], "made")
    return model.node("Reshape", [made, model.constant("one", np.array([-1, 3]))], "y")


def turned(model: TinyQdq, x: str) -> str:
    """The images are the columns of a product."""
    columns = model.node("Transpose", [x], "columns", perm=[1, 0])
    made = model.node("MatMul", [weight(model, "w", 10, TERMS), columns], "made")
    return model.node("Transpose", [made], "y", perm=[1, 0])


def wide(model: TinyQdq, x: str) -> str:
    """Columns enough to be shared out among threads, and more than a block of products each."""
    return model.node("MatMul", [x, weight(model, "w", TERMS, 120)], "y")


def narrow(model: TinyQdq, x: str) -> str:
    return model.node("Gemm", [x, weight(model, "w", 10, TERMS)], "y", transB=1)


def twice(model: TinyQdq, x: str) -> str:
    """One weight for two products."""
    w = weight(model, "w", 40, 40)
    return model.node("MatMul", [model.node("MatMul", [x, w], "first"), w], "y")


def convolved(model: TinyQdq, x: str) -> str:
    made = model.node("Conv", [x, weight(model, "w", 8, 64, 3, 3)], "made", pads=[1, 1, 1, 1])
    return model.node("Flatten", [model.node("GlobalAveragePool", [made], "pooled")], "y")


def whole_image(model: TinyQdq, x: str) -> str:
    """A convolution as large as its images."""
    return model.node(
        "Flatten", [model.node("Conv", [x, weight(model, "w", 10, 512, 4, 4)], "z")], "y"
    )


# Of 200 images, in batches of 256 or, where an image is 32 kB, of 128.
CASES: list[tuple[Any, tuple[int, ...], int]] = [
    (mixing, (40,), 1),
    (in_pairs, (40,), 1),
    (turned, (TERMS,), 1),
    (wide, (TERMS,), 1),
    (narrow, (TERMS,), 4),
    (twice, (40,), 4),
    (convolved, (64, 5, 5), 4),
    (whole_image, (512, 4, 4), 2),
]


def pieces_of(runner: SuffixRunner) -> int:
    part = runner.parts.part(runner.base_graph, runner.base_graph.inputs, runner.base_graph.outputs)
    return len(list(runner.parts.run(part)))


@pytest.mark.parametrize(("build", "shape", "pieces"), CASES)
def test_scores_are_those_of_a_whole_run(
    build: Any, shape: tuple[int, ...], pieces: int, tmp_path: Path
) -> None:
    model = TinyQdq(shape)
    base = onnx.load(model.save(tmp_path, build(model, model.quantize("x", 0.03, 128))))
    images = images_of(RNG.standard_normal((200, *shape)).astype(np.float32))
    runner = SuffixRunner(base, images)
    assert pieces_of(runner) == pieces
    for name in ("w_scale", "x_scale"):
        edited = nudged(base, name)
        whole = whole_run(edited, images, tmp_path, execution="reference")
        same(first_of(runner.outputs(edited)), whole)


@pytest.mark.parametrize("images", [1, 257])
def test_an_image_that_is_alone_in_its_batch_has_a_whole_runs_scores(
    images: int, tmp_path: Path
) -> None:
    """Threads share the work of a lone image, and its sums are other ones."""
    base = onnx.load(bundled_models()["resnet8"])
    edited = quantized_at(base, "stack2.shortcut.out", 0.06)
    sample = load_sample().take(images)
    whole = whole_run(edited, sample, tmp_path, execution="reference")
    same(first_of(SuffixRunner(base, sample).outputs(edited)), whole)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_pieces_of_resnet8_are_steady_under_any_number_of_threads(
    threads: int, tmp_path: Path
) -> None:
    base = onnx.load(bundled_models()["resnet8-int8"])
    edited = bypassed(bypassed(base, "stack3.relu1.out"), "stack2.relu1.out")
    sample = load_sample().take(130)
    runner = SuffixRunner(base, sample, threads=threads)
    assert pieces_of(runner) == 3
    whole = whole_run(edited, sample, tmp_path, execution="reference", threads=threads)
    same(first_of(runner.outputs(edited)), whole)


def same(one: NDArray[Any], other: NDArray[Any]) -> None:
    np.testing.assert_array_equal(one, other)
