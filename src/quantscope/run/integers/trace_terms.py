"""Take one output value of a layer apart: the integers that meet there, and their exact sum."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from quantscope.arithmetic import Window, fixed_point_multiplier, resolve_window
from quantscope.model import QuantTensor
from quantscope.run.integers.compute import pool_sums
from quantscope.run.integers.layer import Array, IntegerLayer, accumulator_scale


@dataclass(frozen=True)
class Term:
    """One input integer and, in a product, the weight that it meets.

    `at` is its place in the input, without the image; outside the input for padding, where `x` is
    the zero-point. `product` is (x - zx) * (w - zw), in an Add or a pool x - zx alone; `steps` is
    what it adds to the output, in steps of the output's scale (of the accumulator's real value
    where no quantizer follows).
    """

    tensor: str
    at: tuple[int, ...]
    x: int
    x_centred: int
    w: int | None
    w_centred: int | None
    product: int
    steps: float
    is_padding: bool = False


@dataclass(frozen=True)
class Multiplier:
    """The factor sx * sw / sy in three forms; real ~ mantissa * 2**(shift - 31)."""

    formula: str
    float32: float
    float64: float
    mantissa: int
    shift: int


@dataclass(frozen=True)
class Parts:
    """A value's terms and their sum; `exact_steps` is it before rounding, from the zero-point.

    `accumulator` is None in an Add, and no whole number where the bias is stated as a real one.
    """

    terms: tuple[Term, ...]
    multipliers: tuple[Multiplier, ...]
    sum: int | None
    bias: int | float | None
    accumulator: int | float | None
    exact_steps: Fraction


def take_apart(
    spec: IntegerLayer,
    operands: Sequence[Array],
    at: tuple[int, ...],
    output: QuantTensor | None,
) -> Parts:
    """Take a value apart. `operands` hold one image; `at` is the output's place without it."""
    if spec.kind == "Add":
        return _add(spec, operands, at, output)
    if spec.kind == "AveragePool":
        return _pool(spec, operands[0], at, output)
    return _product(spec, operands, at, output)


def _product(
    spec: IntegerLayer, operands: Sequence[Array], at: tuple[int, ...], output: QuantTensor | None
) -> Parts:
    x, w = spec.sides
    channel = at[0] if spec.kind == "Conv" else at[-1]
    met = _conv_places(spec, operands, at) if spec.kind == "Conv" else _row(operands, at)
    w_scale = w.params.scale.reshape(-1)[channel if w.params.scale.size > 1 else 0]
    w_zero = int(w.params.zero_point.reshape(-1)[channel if w.params.zero_point.size > 1 else 0])
    y_scale = np.float32(1) if output is None else output.params.scale.reshape(())
    alpha = np.float32(spec.alpha)
    exact = _fraction(alpha) * _fraction(x.params.scale) * _fraction(w_scale) / _fraction(y_scale)
    multiplier = _multiplier(
        "s_x * s_w / s_y" if output else "s_x * s_w",
        np.float32(alpha * x.params.scale * w_scale / y_scale),
        exact,
    )
    terms = []
    for place, value, weight, is_padding in met:
        centred, w_centred = value - x.zero_point, weight - w_zero
        product = centred * w_centred
        terms.append(
            Term(
                x.tensor.name,
                place,
                value,
                centred,
                weight,
                w_centred,
                product,
                float(product * exact),
                is_padding,
            )
        )
    total = sum(term.product for term in terms)
    bias: int | float | None = None
    accumulator: int | float = total
    steps = total * exact
    if spec.bias is not None:
        bias = int(spec.bias[channel if spec.bias.size > 1 else 0])
        accumulator = total + bias
        steps = accumulator * exact
    elif spec.real_bias is not None:
        real = float(spec.real_bias[channel if spec.real_bias.size > 1 else 0])
        step = accumulator_scale(spec, wide=True).reshape(-1)
        bias = real / float(step[channel if step.size > 1 else 0])
        accumulator = total + bias
        steps += Fraction(real) / _fraction(y_scale)
    return Parts(tuple(terms), (multiplier,), total, bias, accumulator, steps)


def _add(
    spec: IntegerLayer, operands: Sequence[Array], at: tuple[int, ...], output: QuantTensor | None
) -> Parts:
    terms, multipliers = [], []
    steps = Fraction(0)
    y_scale = np.float32(1) if output is None else output.params.scale.reshape(())
    rank = max(operand.ndim for operand in operands)
    for letter, side, operand in zip("ab", spec.sides, operands, strict=True):
        full = operand.reshape((1,) * (rank - operand.ndim) + operand.shape)
        place = tuple(i if n > 1 else 0 for i, n in zip((0, *at), full.shape, strict=True))
        value = int(full[place])
        exact = _fraction(side.params.scale) / _fraction(y_scale)
        centred = value - side.zero_point
        terms.append(
            Term(
                side.tensor.name,
                place[1:],
                value,
                centred,
                None,
                None,
                centred,
                float(centred * exact),
            )
        )
        multipliers.append(
            _multiplier(f"s_{letter} / s_y", np.float32(side.params.scale / y_scale), exact)
        )
        steps += centred * exact
    return Parts(tuple(terms), tuple(multipliers), None, None, None, steps)


def _pool(spec: IntegerLayer, x: Array, at: tuple[int, ...], output: QuantTensor | None) -> Parts:
    side = spec.sides[0]
    kernel = spec.kernel_shape or x.shape[2:]
    window = resolve_window(x.shape[2:], kernel, spec.attributes)
    place = at[1:] if spec.keeps_axes else (0,) * len(kernel)
    _, counts = pool_sums(spec, x)
    count = max(int(counts[place]), 1)
    y_scale = np.float32(1) if output is None else output.params.scale.reshape(())
    exact = _fraction(side.params.scale) / (_fraction(y_scale) * count)
    float32 = np.float32(side.params.scale / (y_scale * np.float32(count)))
    multiplier = _multiplier(f"s_x / (s_y * {count})", float32, exact)
    terms = []
    for tap in _taps(window, place):
        is_padding = not _inside(tap, x.shape[2:])
        value = side.zero_point if is_padding else int(x[(0, at[0], *tap)])
        centred = value - side.zero_point
        terms.append(
            Term(
                side.tensor.name,
                (at[0], *tap),
                value,
                centred,
                None,
                None,
                centred,
                float(centred * exact),
                is_padding,
            )
        )
    total = sum(term.product for term in terms)
    return Parts(tuple(terms), (multiplier,), total, None, total, total * exact)


_Met = list[tuple[tuple[int, ...], int, int, bool]]


def _conv_places(spec: IntegerLayer, operands: Sequence[Array], at: tuple[int, ...]) -> _Met:
    """List what meets, in the kernels' order: kernel positions, innermost the group's channels."""
    x, w = operands
    channel, *position = at
    window = resolve_window(x.shape[2:], w.shape[2:], spec.attributes)
    first = channel // (w.shape[0] // spec.attributes.group) * w.shape[1]
    met: _Met = []
    offsets = np.ndindex(*window.kernel)
    for offset, tap in zip(offsets, _taps(window, tuple(position)), strict=True):
        inside = _inside(tap, x.shape[2:])
        for c in range(w.shape[1]):
            value = int(x[(0, first + c, *tap)]) if inside else spec.sides[0].zero_point
            met.append(((first + c, *tap), value, int(w[(channel, c, *offset)]), not inside))
    return met


def _row(operands: Sequence[Array], at: tuple[int, ...]) -> _Met:
    """List what meets: one row of the first operand and one column of the second."""
    x, w = operands
    row = x[(0, *at[:-1])]
    stack = (0, *at[:-2])[: max(w.ndim - 2, 0)]
    column = w[stack][:, at[-1]]
    return [
        ((*at[:-1], k), int(value), int(weight), False)
        for k, (value, weight) in enumerate(zip(row, column, strict=True))
    ]


def _taps(window: Window, position: tuple[int, ...]) -> list[tuple[int, ...]]:
    """List the input's places under one window; some may lie outside, in the padding."""
    begin = [
        p * stride - pad
        for p, stride, pad in zip(position, window.strides, window.pads_begin, strict=True)
    ]
    return [
        tuple(b + o * d for b, o, d in zip(begin, offset, window.dilations, strict=True))
        for offset in np.ndindex(*window.kernel)
    ]


def _inside(place: Sequence[int], shape: Sequence[int]) -> bool:
    return all(0 <= p < n for p, n in zip(place, shape, strict=True))


def _fraction(value: Array | np.floating) -> Fraction:
    return Fraction(float(np.asarray(value).reshape(())))


def _multiplier(formula: str, float32: np.float32, exact: Fraction) -> Multiplier:
    return Multiplier(formula, float(float32), float(exact), *fixed_point_multiplier(float(exact)))
