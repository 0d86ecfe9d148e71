"""Compute for page 02 two output values taken apart, all channels' constants, and widths."""

from itertools import groupby
from math import fsum

import numpy as np
import onnx
from onnx import numpy_helper

from doc_numbers.boundary import CENTRE
from doc_numbers.executed import EXAMPLE, Executed, Step, telling_place
from doc_numbers.formatting import Fields, columns, place, rows, signed
from quantscope.arithmetic import (
    accumulator_bits,
    accumulator_bits_bound,
    bias_headroom_bits,
    fixed_point_multiplier,
    multiply_by_quantized_multiplier,
)
from quantscope.model import bundled_models
from quantscope.run.integers.trace_terms import Term


def fields(run: Executed) -> Fields:
    stem, strided = run.steps["stem"], run.steps["stack2.conv1"]
    corner = (strided.output.shape[2] - 1, strided.output.shape[3] - 1)
    stem_at, strided_at = telling_place(stem, CENTRE), telling_place(strided, corner)
    return {
        **_worked("stem", stem, stem_at),
        **_expanded(stem, stem_at),
        **_fixed_point(stem, stem_at),
        "stem.terms": _terms(run, stem.parts(stem_at).terms),
        "stem.float": _float_value(run, stem_at),
        "stem.channel_rows": _channel_rows(stem),
        "strided.place": place(corner),
        "strided.rows": _by_position(strided.parts(strided_at).terms),
        "strided.padded": sum(term.is_padding for term in strided.parts(strided_at).terms),
        "strided.input": run.network.layer("stack2.conv1").activations[0].quant.name,
        **_worked("strided", strided, strided_at),
        **_widths(run),
    }


def _worked(prefix: str, step: Step, at: tuple[int, ...]) -> Fields:
    parts = step.parts(at)
    channel = at[0]
    x, w = step.spec.sides
    (multiplier,) = parts.multipliers
    accumulator = int(parts.accumulator or 0)
    q = int(step.output[(EXAMPLE, *at)])
    made = {
        "at": place(at),
        "channel": channel,
        "x_scale": float(x.params.scale),
        "x_zero_point": x.zero_point,
        "w_scale": float(w.params.scale.reshape(-1)[channel]),
        "y_scale": float(step.y.params.scale),
        "y_zero_point": step.zero_point,
        "count": len(parts.terms),
        "sum": int(parts.sum or 0),
        "bias": int(parts.bias or 0),
        "bias_signed": signed(int(parts.bias or 0)),
        "accumulator": accumulator,
        "bias_scale": float(w.params.scale.reshape(-1)[channel]) * float(x.params.scale),
        "multiplier": multiplier.float64,
        "mantissa": multiplier.mantissa,
        "right_shift": 31 - multiplier.shift,
        "steps": float(parts.exact_steps),
        "rounded": round(parts.exact_steps),
        "unclamped": round(parts.exact_steps) + step.zero_point,
        "q": q,
        "real": step.real(q),
    }
    return {f"{prefix}.{name}": value for name, value in made.items()}


def _fixed_point(step: Step, at: tuple[int, ...]) -> Fields:
    parts = step.parts(at)
    (multiplier,) = parts.multipliers
    accumulator = int(parts.accumulator or 0)
    product = accumulator * multiplier.mantissa
    steps = multiply_by_quantized_multiplier(accumulator, multiplier.mantissa, multiplier.shift)
    return {
        "stem.shift": multiplier.shift,
        "stem.fixed_product": product,
        "stem.fixed_steps": product / 2 ** (31 - multiplier.shift),
        "stem.fixed_rounded": int(steps),
    }


def _terms(run: Executed, terms: tuple[Term, ...]) -> str:
    head = ("k", "[c,y,x]", "pixel", "x", "x - z_x", "w", "(x - z_x) * w")
    body = []
    for k, term in enumerate(terms):
        pixel = int(run.example[term.at])
        at = f"[{place(term.at)}]"
        body.append((k, at, pixel, term.x, term.x_centred, term.w or 0, term.product))
    return columns([head, *body])


def _expanded(step: Step, at: tuple[int, ...]) -> Fields:
    """Compute the four sums of the expanded product; weights have zero-point 0."""
    terms = step.parts(at).terms
    raw = sum(term.x * int(term.w or 0) for term in terms)
    weights = sum(int(term.w or 0) for term in terms)
    zero_point = step.spec.sides[0].zero_point
    bias = int(step.parts(at).bias or 0)
    folded = bias - zero_point * weights
    assert raw + folded == step.parts(at).accumulator
    return {
        "stem.raw_sum": raw,
        "stem.weight_sum": weights,
        "stem.correction": -zero_point * weights,
        "stem.folded_bias": folded,
        "stem.folded_bias_signed": signed(folded),
    }


def _float_value(run: Executed, at: tuple[int, ...]) -> float:
    """Compute the float network's value there in float64: ReLU(pixels * weights + bias)."""
    constants = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in onnx.load(bundled_models()["resnet8"]).graph.initializer
    }
    channel, row, column = at
    window = run.example[:, row - 1 : row + 2, column - 1 : column + 2].astype(np.float64)
    weights = constants["stem.weight"][channel].astype(np.float64)
    bias = float(constants["stem.bias"][channel])
    return max(fsum([*(window * weights).ravel(), bias]), 0.0)


def _channel_rows(step: Step) -> str:
    weights = step.spec.sides[1]
    data = np.asarray(weights.data).astype(np.int64)
    bias = np.asarray(step.spec.bias)
    found = []
    for channel, exact in enumerate(step.multiplier()):
        total = int(data[channel].sum())
        mantissa, shift = fixed_point_multiplier(float(exact))
        found.append(
            (
                channel,
                f"{float(weights.params.scale[channel]):.9g}",
                int(bias[channel]),
                total,
                int(bias[channel]) - step.spec.sides[0].zero_point * total,
                f"{float(exact):.9g}",
                mantissa,
                31 - shift,
            )
        )
    return rows(found)


def _by_position(terms: tuple[Term, ...]) -> str:
    found = []
    # Kernel positions lie together: channels are innermost.
    for number, (position, group) in enumerate(groupby(terms, key=lambda term: term.at[1:])):
        met = list(group)
        products = sum(term.product for term in met)
        kernel = f"{number // 3},{number % 3}"
        kind = "padding" if met[0].is_padding else "input"
        x_sum = sum(term.x_centred for term in met)
        w_sum = sum(int(term.w or 0) for term in met)
        found.append((kernel, f"[{place(position)}]", kind, len(met), x_sum, w_sum, products))
    return rows(found)


def _widths(run: Executed) -> Fields:
    """Measure how many bits each layer's accumulators need, at worst and over the images."""
    found = []
    widest_partial, widest_measured = 0, 0
    for step in run.products:
        x, w = step.spec.sides
        data = np.asarray(w.data)
        filters = data if step.spec.kind == "Conv" else data.T
        bound = accumulator_bits_bound(
            filters,
            qmin=x.params.qmin,
            qmax=x.params.qmax,
            x_zero_point=x.zero_point,
            bias=step.spec.bias,
        )
        seen = step.accumulators()
        low, high = int(seen.min()), int(seen.max())
        bits, partial = int(bound.bits.max()), int(bound.partial_bits.max())
        measured = int(accumulator_bits(low, high))
        bias_bits = 32 - int(bias_headroom_bits(np.asarray(step.spec.bias)).min())
        widest_partial = max(widest_partial, partial)
        widest_measured = max(widest_measured, measured)
        terms = filters[0].size
        limits = f"{int(bound.lowest.min())} .. {int(bound.highest.max())}"
        plain = int(accumulator_bits(-128 * 255 * terms, 128 * 255 * terms))
        row = (step.name, terms, plain, limits, bits, partial, f"{low} .. {high}", measured)
        found.append((*row, bias_bits))
    return {
        "width.rows": rows(found),
        "width.widest_partial": widest_partial,
        "width.widest_measured": widest_measured,
    }
