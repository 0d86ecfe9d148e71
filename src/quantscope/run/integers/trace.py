"""Trace one output value, from the integers that meet to the number that comes out.

The integer shown is the exact one: the exact sum, rounded once. The reference execution computes
in float32, so it may land one step away where the sum lies on a rounding tie; the runtime's kernel
may land anywhere its 16-bit pair sums saturate to. Both are shown beside it, with the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from quantscope.arithmetic import multiply_by_quantized_multiplier
from quantscope.data import Samples, SamplesSource, samples_for
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import (
    Layer,
    ModelSource,
    Network,
    QuantTensor,
    find_original,
    open_model,
)
from quantscope.model.onnx import OnnxModel
from quantscope.plain_text import with_article
from quantscope.run.capture import Capture, CapturedTensor, capture
from quantscope.run.integers.compute import compute, operands_of
from quantscope.run.integers.float_by_name import name_float_value
from quantscope.run.integers.layer import COMPUTING_OPS, Array, IntegerLayer, integer_layer
from quantscope.run.integers.trace_runtime import RuntimeTrace, trace_runtime
from quantscope.run.integers.trace_terms import Multiplier, Parts, Term, take_apart


@dataclass(frozen=True)
class TracedTensor:
    """One of the layer's tensors with the parameters that count for the traced value."""

    name: str
    role: str
    dtype: str
    bits: int
    scale: float
    zero_point: int
    channel: int | None
    """The channel whose scale was taken, where there is one per channel."""


@dataclass(frozen=True)
class LayerAgreement:
    """The exact integers of a whole layer, for this image, against those of an execution."""

    values: int
    equal: int
    one_step: int
    more: int
    largest_steps: int

    @classmethod
    def of(cls, exact: Array, other: Array) -> "LayerAgreement":
        steps = np.abs(exact.astype(np.int64) - other.astype(np.int64))
        return cls(
            values=steps.size,
            equal=int((steps == 0).sum()),
            one_step=int((steps == 1).sum()),
            more=int((steps > 1).sum()),
            largest_steps=int(steps.max(initial=0)),
        )


@dataclass(frozen=True)
class Trace:
    """One output value taken apart; `at` is its place without the image.

    `steps` is the result before rounding, in steps from the zero-point; `tie_distance` how far it
    lies from the nearest rounding tie; `integer` the exact result. `float32_integer` is what
    onnxruntime's float32 multiplier makes of the same accumulator, `fixed_point_integer` what
    mantissa and shift do (None where they do not apply). `float_error_bound` is how far float32
    sums can be off, in steps. Where no quantizer follows, the integers are None and `real` is the
    result.
    """

    model: str
    digest: str
    layer: str
    op_type: str
    data: str
    image: int
    index: int
    at: tuple[int, ...]
    tensors: tuple[TracedTensor, ...]
    terms: tuple[Term, ...]
    sum: int | None
    bias: int | float | None
    accumulator: int | float | None
    multipliers: tuple[Multiplier, ...]
    steps: float
    tie_distance: float
    float_error_bound: float
    rounded: int | None
    relu: str | None
    """The ReLU between the layer and its quantizer, "folded" where the quantizer is the ReLU."""
    zero_point: int | None
    unclamped: int | None
    qmin: int | None
    qmax: int | None
    integer: int | None
    real: float
    float32_integer: int | None
    fixed_point_integer: int | None
    float_model: str | None
    float_value: float | None
    float_note: str | None
    reference_integer: int | None
    reference_real: float
    agreement: LayerAgreement | None
    runtime: RuntimeTrace | None
    runtime_note: str | None

    @property
    def clamped(self) -> str | None:
        """The end of the type, "low" or "high", that cut the value off; None where none did."""
        if self.integer is None or self.unclamped is None or self.unclamped == self.integer:
            return None
        return "low" if self.unclamped < self.integer else "high"

    @property
    def reference_steps(self) -> int | None:
        """The reference execution's integer minus the exact one."""
        if self.integer is None or self.reference_integer is None:
            return None
        return self.reference_integer - self.integer

    @property
    def is_tie(self) -> bool:
        """Say whether float32 could round this value the other way."""
        return self.tie_distance <= self.float_error_bound

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        found |= {
            "clamped": self.clamped,
            "reference_steps": self.reference_steps,
            "is_tie": self.is_tie,
        }
        if self.runtime is not None:
            found["runtime"]["is_explained"] = self.runtime.is_explained
            for pair, made in zip(
                found["runtime"]["saturated_pairs"], self.runtime.saturated_pairs, strict=True
            ):
                pair["lost"] = made.lost
        return found


def trace_value(
    model: ModelSource,
    layer: str,
    image: int,
    at: Sequence[int],
    *,
    data: SamplesSource | None = None,
    float_model: ModelSource | None = None,
    int8_kernels: bool | None = None,
) -> Trace:
    """Take apart the value at `at` ([channel, y, x]; [channel] after a Gemm) of a layer's output.

    `image` is a row of `data`, the bundled sample unless given. A model that says it was made from
    a bundled float model is compared with that one.
    """
    opened = open_model(model).as_onnx("trace")
    network = opened.network
    if not network.is_quantized:
        raise BadModelError(
            f"{network.path.name} is a float model: it has no integers to trace; "
            f"give a quantized one"
        )
    found = network.layer(layer)
    if found.op_type not in COMPUTING_OPS:
        raise _not_traced(network, found)
    spec = integer_layer(network, opened.graph, found)
    chosen = samples_for(opened, data, first=image + 1).select([image])
    names = [*spec.activations, spec.output.name if spec.output else found.name]
    reference = capture(opened, chosen, names)
    place = _place(spec, at, _captured_output(spec, reference).values.shape[1:])
    operands = operands_of(spec, _integers(reference))
    parts = take_apart(spec, operands, place, spec.output)
    runtime, runtime_note = None, None
    if spec.output is not None:
        shipped = capture(opened, chosen, names, execution="runtime", int8_kernels=int8_kernels)
        runtime, runtime_note = trace_runtime(spec, shipped, reference, place)
    float_name, float_value, float_note = _float_value(opened, spec, chosen, place, float_model)
    result = _result(spec, parts, spec.output)
    return Trace(
        model=network.path.name,
        digest=network.digest,
        layer=found.name,
        op_type=found.op_type,
        data=chosen.name,
        image=image,
        index=int(chosen.indices[0]),
        at=place,
        tensors=_tensors(spec, place),
        terms=parts.terms,
        sum=parts.sum,
        bias=parts.bias,
        accumulator=parts.accumulator,
        multipliers=parts.multipliers,
        relu=_relu(spec),
        float_model=float_name,
        float_value=float_value,
        float_note=float_note,
        runtime=runtime,
        runtime_note=runtime_note,
        float_error_bound=_float_error_bound(parts),
        **result,
        **_beside(spec, parts, operands, reference, place),
    )


def _result(spec: IntegerLayer, parts: Parts, output: QuantTensor | None) -> dict[str, Any]:
    """Round the exact sum once and clamp it; without a quantizer it stays real."""
    exact = parts.exact_steps
    tie = abs(exact - (exact.numerator // exact.denominator) - Fraction(1, 2))
    facts: dict[str, Any] = {"steps": float(exact), "tie_distance": float(tie)}
    if output is None:
        nothing = ("rounded", "zero_point", "unclamped", "qmin", "qmax", "integer")
        return facts | dict.fromkeys(nothing) | {"real": float(exact)}
    rounded = round(exact)  # half to even, as QuantizeLinear
    params = output.params
    zero_point = int(params.zero_point)
    unclamped = rounded + zero_point
    kept = max(rounded, 0) + zero_point if spec.relu is not None else unclamped
    integer = min(max(kept, params.qmin), params.qmax)
    return facts | {
        "rounded": rounded,
        "zero_point": zero_point,
        "unclamped": unclamped,
        "qmin": params.qmin,
        "qmax": params.qmax,
        "integer": integer,
        "real": float(np.float32(integer - zero_point) * params.scale.astype(np.float32)),
    }


def _beside(
    spec: IntegerLayer,
    parts: Parts,
    operands: Sequence[Array],
    reference: Capture,
    place: tuple[int, ...],
) -> dict[str, Any]:
    """Compute the same value in other ways, from the same integers."""
    captured = _captured_output(spec, reference)
    facts: dict[str, Any] = {
        "float32_integer": None,
        "fixed_point_integer": None,
        "reference_integer": None,
        "reference_real": float(captured.values[(0, *place)]),
        "agreement": None,
    }
    if spec.output is None or captured.integers is None:
        return facts
    exact = compute(spec, operands, spec.output)
    float32 = compute(spec, operands, spec.output, "kernel")
    return facts | {
        "float32_integer": int(float32[(0, *place)]),
        "fixed_point_integer": _fixed_point(spec, parts, spec.output),
        "reference_integer": int(captured.integers[(0, *place)]),
        "agreement": LayerAgreement.of(exact, captured.integers),
    }


def _fixed_point(spec: IntegerLayer, parts: Parts, output: QuantTensor) -> int | None:
    """Requantize with mantissa and shift; None where the shifted sum leaves 32 bits."""
    total = parts.accumulator
    if not isinstance(total, int):
        return None
    (multiplier,) = parts.multipliers
    if abs(total) << max(multiplier.shift, 0) >= 2**31:
        return None
    rounded = int(multiply_by_quantized_multiplier(total, multiplier.mantissa, multiplier.shift))
    if spec.relu is not None:
        rounded = max(rounded, 0)
    params = output.params
    return min(max(rounded + int(params.zero_point), params.qmin), params.qmax)


def _float_error_bound(parts: Parts) -> float:
    """Bound how far a float32 sum of these terms, in any order, can be off, in steps."""
    size = sum(abs(term.steps) for term in parts.terms)
    size += abs(parts.bias or 0) * parts.multipliers[0].float64
    # One rounding for each addition, and those of dequantizing, multiplying and dividing.
    return (len(parts.terms) + 5) * 2.0**-24 * size


def _float_value(
    model: OnnxModel,
    spec: IntegerLayer,
    image: Samples,
    place: tuple[int, ...],
    given: ModelSource | None,
) -> tuple[str | None, float | None, str | None]:
    """Give the float model's name and its value at this place, or a note why there is none."""
    original = find_original(model, given)
    if original is None:
        return None, None, "the float model is not known; give it with --float"
    try:
        name = name_float_value(original.network, spec.layer.name, spec.output)
    except BadModelError as error:
        if given is not None:
            raise
        return None, None, str(error)
    (found,) = capture(original, image, [name]).tensors.values()
    if found.values.ndim != len(place) + 1 or any(
        i >= n for i, n in zip(place, found.values.shape[1:], strict=True)
    ):
        raise BadModelError(
            f"{original.name} and {model.name} do not belong together: {spec.layer.name} gives "
            f"shape {list(found.values.shape[1:])} in the float one"
        )
    value = float(found.values[(0, *place)])
    if not np.isfinite(value):
        return original.name, None, f"{original.name} gives {value} there"
    return original.name, value, None


def _tensors(spec: IntegerLayer, place: tuple[int, ...]) -> tuple[TracedTensor, ...]:
    channel = place[0] if spec.kind == "Conv" else place[-1]
    roles = {"Add": ("a", "b"), "AveragePool": ("x",)}.get(spec.kind, ("x", "w"))
    listed = [(role, s.tensor.name, s.params) for role, s in zip(roles, spec.sides, strict=True)]
    if spec.output is not None:
        listed.append(("y", spec.output.name, spec.output.params))
    traced = []
    for role, name, params in listed:
        several = params.scale.size > 1
        one = channel if several else 0
        traced.append(
            TracedTensor(
                name=name,
                role=role,
                dtype=params.dtype,
                bits=params.bits,
                scale=float(params.scale.reshape(-1)[one]),
                zero_point=int(params.zero_point.reshape(-1)[one]),
                channel=channel if several else None,
            )
        )
    return tuple(traced)


def _relu(spec: IntegerLayer) -> str | None:
    if spec.relu is not None:
        return spec.relu.name
    return "folded" if spec.output is not None and spec.output.folded_relu else None


def _integers(captured: Capture) -> Mapping[str, Array]:
    return {n: t.integers for n, t in captured.tensors.items() if t.integers is not None}


def _captured_output(spec: IntegerLayer, captured: Capture) -> CapturedTensor:
    return captured[spec.output.name if spec.output else f"{spec.layer.name}.out"]


def _place(spec: IntegerLayer, at: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Check a place against the output's shape without the image."""
    place = tuple(int(i) for i in at)
    size = ",".join(map(str, shape))
    if len(place) != len(shape):
        raise BadConfigError(
            f"The output of {spec.layer.name} has {len(shape)} axes [{size}] for an image; "
            f"give as many numbers, not {len(place)}"
        )
    for i, (index, n) in enumerate(zip(place, shape, strict=True)):
        if not 0 <= index < n:
            raise BadConfigError(
                f"The output of {spec.layer.name} has shape [{size}] for an image; "
                f"number {i + 1} of the place must be 0 to {n - 1}, not {index}"
            )
    return place


def _not_traced(network: Network, layer: Layer) -> BadModelError:
    before = next((o.source for o in layer.inputs if o.source), None)
    hint = f"; trace the layer before it, {before}" if before else ""
    return BadModelError(
        f"{layer.name} of {network.path.name} is {with_article(layer.op_type)}; convolutions, "
        f"matrix products, Add and average pools can be traced{hint}"
    )
