"""Explain why the runtime's kernel gave another integer: by its inputs, or by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quantscope.run.capture import Capture
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.integers.compute import compute, operands_of, saturation_of
from quantscope.run.integers.layer import MULTIPLYING, Array, IntegerLayer
from quantscope.run.integers.trace_terms import Term, take_apart


@dataclass(frozen=True)
class SaturatedPair:
    """Two neighbours in the kernel's own order whose sum of products left 16 bits.

    Raw integers meet in the kernel, zero-points are taken off later: `sum` is x1*w1 + x2*w2 of
    those, `kept` what 16 bits hold of it.
    """

    at: tuple[tuple[int, ...], tuple[int, ...]]
    x: tuple[int, int]
    w: tuple[int, int]
    sum: int
    kept: int

    @property
    def lost(self) -> int:
        return self.kept - self.sum


@dataclass(frozen=True)
class RuntimeTrace:
    """The shipped kernel's integer for the same place.

    `steps` is runtime minus reference. It is made of `inherited_steps` (the exact layer on the
    runtime's own inputs, minus on the reference's, plus what the reference rounded differently)
    and `kernel_steps` (what the kernel adds to the exact layer on those inputs). `predicted` is
    what the model of the kernel gives on those inputs, and `predicted_equal` for how many values
    of the layer it gives the runtime's integer.
    """

    integer: int
    kernel: str
    runs_integers: bool
    steps: int
    inherited_steps: int
    kernel_steps: int
    predicted: int
    predicted_equal: int
    values: int
    different_from_reference: int
    saturates: bool
    saturated_pairs: tuple[SaturatedPair, ...]

    @property
    def is_explained(self) -> bool:
        """Say whether the model of the kernel gives the very integer that came out."""
        return self.predicted == self.integer


def trace_runtime(
    spec: IntegerLayer,
    shipped: Capture,
    reference: Capture,
    place: tuple[int, ...],
) -> tuple[RuntimeTrace | None, str | None]:
    """Take the runtime's value apart, or give one line why it cannot be seen."""
    assert spec.output is not None and shipped.kernels is not None
    missing = next((n for n in (*spec.activations, spec.output.name) if n in shipped.unseen), None)
    if missing is not None:
        return None, f"{missing} cannot be seen in runtime execution: {shipped.unseen[missing]}"
    captured, stated = shipped[spec.output.name].integers, reference[spec.output.name].integers
    assert captured is not None and stated is not None
    named = {layer.name: layer for layer in shipped.kernels.layers}
    kernel = named[spec.layer.name]
    runs_integers = kernel.kernel == "integer"
    values = {n: shipped[n].integers for n in spec.activations}
    operands = operands_of(spec, {n: v for n, v in values.items() if v is not None})
    # Where the CPU cannot be asked, it may saturate.
    saturates = kernel.saturates and saturates_8bit_products() is not False
    saturation = saturation_of(spec, operands) if saturates else None
    exact = compute(spec, operands, spec.output, whole_bias=True)
    # A float kernel rounds the exact sum; only its bias was rounded when the graph was optimized.
    predicted = exact
    if runs_integers:
        predicted = compute(spec, operands, spec.output, "avx2", saturation=saturation)
    at = (0, *place)
    integer = int(captured[at])
    return (
        RuntimeTrace(
            integer=integer,
            kernel=kernel.executed_as or kernel.kernel,
            runs_integers=runs_integers,
            steps=integer - int(stated[at]),
            inherited_steps=int(exact[at]) - int(stated[at]),
            kernel_steps=integer - int(exact[at]),
            predicted=int(predicted[at]),
            predicted_equal=int(np.count_nonzero(predicted == captured)),
            values=captured.size,
            different_from_reference=int(np.count_nonzero(captured != stated)),
            saturates=saturates,
            saturated_pairs=_pairs(spec, operands, place) if saturates else (),
        ),
        None,
    )


def _pairs(
    spec: IntegerLayer, operands: Sequence[Array], place: tuple[int, ...]
) -> tuple[SaturatedPair, ...]:
    if spec.kind not in MULTIPLYING:
        return ()
    terms = take_apart(spec, operands, place, spec.output).terms
    # onnxruntime runs int8 inputs as uint8, shifted by 128, on the CPUs that saturate.
    shift = 128 if operands[0].dtype == np.int8 else 0
    found = (_pair(one, two, shift) for one, two in zip(terms[::2], terms[1::2], strict=False))
    return tuple(pair for pair in found if pair.lost)


def _pair(one: Term, two: Term, shift: int) -> SaturatedPair:
    x = one.x + shift, two.x + shift
    w = one.w or 0, two.w or 0
    total = x[0] * w[0] + x[1] * w[1]
    return SaturatedPair((one.at, two.at), x, w, total, min(max(total, -32768), 32767))
