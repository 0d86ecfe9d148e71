"""Count for page 02 how many outputs change when multiplier or rounding are made cheaper."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from doc_numbers.executed import Executed, Step
from doc_numbers.formatting import Fields, percent, rows
from quantscope.arithmetic import (
    fixed_point_multiplier,
    limits,
    multiply_by_quantized_multiplier,
    requantize,
)
from quantscope.run.integers.compute import multiplier_of

Integers = NDArray[np.int64]
MANTISSA_BITS = (31, 16, 12, 8)


def fields(run: Executed) -> Fields:
    total = sum(step.output.size for step in run.products)
    ways: list[tuple[str, Callable[[Step, Integers], Integers]]] = [
        ("float32 multiplication, half to even (onnxruntime)", _float32),
        ("31-bit mantissa, two roundings (gemmlowp, TFLite)", _two_roundings),
        *((_name(bits), _rounded_once(bits)) for bits in MANTISSA_BITS),
        ("16-bit mantissa, no rounding: the shift cuts off", _rounded_once(16, half=False)),
    ]
    differences: list[list[Integers]] = [[] for _ in ways]
    for step in run.products:
        accumulators = step.accumulators()
        for (_, way), found in zip(ways, differences, strict=True):
            found.append(np.abs(way(step, accumulators) - step.output).ravel())
    lines = []
    for (name, _), found in zip(ways, differences, strict=True):
        steps = np.concatenate(found)
        changed = int(np.count_nonzero(steps))
        lines.append((name, changed, percent(changed, total), int(steps.max())))
    ratios = [float(m) for step in run.products for m in step.multiplier()]
    return {
        "requantize.outputs": total,
        "requantize.rows": rows(lines),
        "requantize.smallest": min(ratios),
        "requantize.largest": max(ratios),
        "requantize.shifts": _shifts(ratios),
        "requantize.constants": len(ratios),
    }


def _name(bits: int) -> str:
    return f"{bits}-bit mantissa, one rounding, half up"


def _float32(step: Step, accumulators: Integers) -> Integers:
    multiplier = multiplier_of(step.spec, step.y)
    params = step.y.params
    return requantize(accumulators, multiplier, step.zero_point, params.dtype).astype(np.int64)


def _two_roundings(step: Step, accumulators: Integers) -> Integers:
    made = np.empty_like(accumulators)
    for channel, exact in enumerate(step.multiplier()):
        mantissa, shift = fixed_point_multiplier(float(exact))
        steps = multiply_by_quantized_multiplier(accumulators[:, channel], mantissa, shift)
        made[:, channel] = steps
    return _clamped(step, made)


def _rounded_once(bits: int, *, half: bool = True) -> Callable[[Step, Integers], Integers]:
    """Make a way to requantize with a mantissa of so many bits; without `half` it truncates."""

    def way(step: Step, accumulators: Integers) -> Integers:
        made = np.empty_like(accumulators)
        for channel, exact in enumerate(step.multiplier()):
            fraction, exponent = np.frexp(float(exact))
            mantissa = round(float(fraction) * 2**bits)
            shift = bits - int(exponent)
            nudge = 1 << (shift - 1) if half else 0
            made[:, channel] = (accumulators[:, channel] * mantissa + nudge) >> shift
        return _clamped(step, made)

    return way


def _clamped(step: Step, steps: Integers) -> Integers:
    return np.clip(steps + step.zero_point, *limits(step.y.params.dtype))


def _shifts(ratios: list[float]) -> str:
    right = [31 - fixed_point_multiplier(ratio)[1] for ratio in ratios]
    return f"{min(right)} to {max(right)}"
