"""Comparison in runtime execution: the integers that ship, and what cannot be seen of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_nets import sqnr

from quantscope.data import load_sample
from quantscope.run import evaluate
from quantscope.run.capture.capture import capture
from quantscope.run.compare.compare import compare
from quantscope.run.cpu import saturates_8bit_products

Array = np.ndarray[Any, Any]

SAMPLE = load_sample().take(10)

x86_only = pytest.mark.skipif(
    saturates_8bit_products() is not True, reason="needs an x86 CPU with AVX2 and without VNNI"
)


@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_runtime_scores_come_from_a_session_not_looked_into(
    format: str, quantized: Callable[..., Path]
) -> None:
    path = quantized(activations="uint8", format=format)
    found = compare(path, SAMPLE, float_model="resnet8", execution="runtime", threads=1)
    shipped = evaluate(path, SAMPLE, execution="runtime", threads=1)
    original = evaluate("resnet8", SAMPLE, execution="reference")
    changed = SAMPLE.indices[shipped.predictions != original.predictions]
    np.testing.assert_array_equal(found.output.changed, changed)
    assert found.unseen == ()
    for tensor in found.activations:
        if tensor.sources is not None:
            assert tensor.sources.total == pytest.approx(1, abs=1e-3)
            assert tensor.sources.kernel is not None


def test_runtime_sqnr_is_that_of_the_integers_which_ship(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="uint8")
    found = compare(path, SAMPLE, float_model="resnet8", execution="runtime", threads=1)
    shipped = capture(path, SAMPLE, ["stack2.add"], execution="runtime", threads=1)[
        "stack2.add.out"
    ]
    f = capture("resnet8", SAMPLE, [found["stack2.add.out"].float_name]).tensors
    (original,) = f.values()
    expected = sqnr(original.values, shipped.values)
    assert found["stack2.add.out"].sqnr_db == pytest.approx(expected, abs=1e-3)


@x86_only
def test_what_cannot_be_seen_in_runtime_execution_is_said(quantized: Callable[..., Path]) -> None:
    path = quantized(activations="int8")
    found = compare(
        path, SAMPLE, float_model="resnet8", execution="runtime", int8_kernels=False, threads=1
    )
    assert found.unseen
    assert {u.name for u in found.unseen} & {t.name for t in found.tensors} == set()
    for tensor in found.unseen:
        assert tensor.reason.startswith("cannot be seen without changing the kernels that run (")
    # The scores are the last tensor, and are never looked into.
    shipped, original = (
        evaluate(model, SAMPLE, execution=execution, int8_kernels=kernels, threads=1).scores
        for model, execution, kernels in ((path, "runtime", False), ("resnet8", "reference", None))
    )
    assert found["head.out"].sqnr_db == pytest.approx(sqnr(original, shipped), abs=1e-3)
