"""Compute for page 01 what QuantizeLinear and DequantizeLinear do."""

from fractions import Fraction

import numpy as np

from doc_numbers.executed import EXAMPLE, IMAGES, Executed, Step, telling_place
from doc_numbers.formatting import Fields, percent, rows
from quantscope.arithmetic import (
    QuantParams,
    dequantize,
    params_from_range,
    quantize,
    range_from_params,
)
from quantscope.data import load_sample
from quantscope.model import QuantTensor

_TIES = (-0.5, 0.5, 1.5, 2.5, 3.5, 254.5, 255.4, 255.5, 300.0, -3.0)
_ODD = QuantParams(1.0, 3, "int8")
CENTRE = (16, 16)


def fields(run: Executed) -> Fields:
    sample = load_sample()
    x = run.network.tensor("input").params
    logits = run.steps["head"]
    label = int(run.labels[EXAMPLE])
    return {
        "model.digest": run.network.digest[:16],
        "images": IMAGES,
        "image": EXAMPLE,
        "image.index": int(sample.indices[EXAMPLE]),
        "image.label": label,
        "image.class": sample.class_names[label],
        "input.scale": float(x.scale),
        "input.zero_point": int(x.zero_point),
        "input.low": float(x.representable_range[0]),
        "input.high": float(x.representable_range[1]),
        "centre": CENTRE[0],
        "pixel.rows": _pixels(run, x),
        "tie.rows": rows(_tie(value, x) for value in _TIES),
        "odd.zero_point": int(_ODD.zero_point),
        "odd.rows": rows(_odd(value) for value in (0.5, 1.5, 2.5)),
        "logits.scale": float(logits.y.params.scale),
        "logits.zero_point": logits.zero_point,
        "logits.low": float(logits.y.params.representable_range[0]),
        "logits.high": float(logits.y.params.representable_range[1]),
        "clip.rows": rows(_clipped(step) for step in run.steps.values()),
        "uint8.rows": _uint8(run),
        **_range(_least_centred(run)),
        **_relu(run),
        **_channels(run.network.tensor("stem.weight")),
    }


def _pixels(run: Executed, params: QuantParams) -> str:
    found = []
    for channel, colour in enumerate(("red", "green", "blue")):
        pixel = int(run.example[(channel, *CENTRE)])
        q = quantize(np.float32(pixel), params)
        real = float(dequantize(q, params))
        found.append((colour, pixel, int(q), f"{real:g}", f"{real - pixel:g}"))
    return rows(found)


def _tie(value: float, params: QuantParams) -> tuple[str | int, ...]:
    steps = Fraction(value) / Fraction(float(params.scale))
    whole = round(steps) + int(params.zero_point)
    q = int(quantize(np.float32(value), params))
    why = ["clamped"] if whole != q else []
    if steps.denominator == 2:
        why.insert(0, "tie, to the even neighbour")
    back = float(dequantize(np.int8(q), params))
    return f"{value:g}", f"{float(steps):g}", round(steps), whole, q, f"{back:g}", ", ".join(why)


def _odd(value: float) -> tuple[str | int, ...]:
    first = int(quantize(np.float32(value), _ODD))
    last = round(Fraction(value) + int(_ODD.zero_point))
    return f"{value:g}", first, last


def _least_centred(run: Executed) -> QuantTensor:
    """Find the tensor with both signs whose zero-point lies farthest from the middle."""
    tensors = [step.y for step in run.steps.values() if not step.y.clips_negatives]
    return max(tensors, key=lambda tensor: abs(int(tensor.params.zero_point)))


def _range(tensor: QuantTensor) -> Fields:
    """Take an asymmetric tensor: its range, and the parameters that follow from it."""
    params = tensor.params
    low, high = (float(end) for end in range_from_params(params))
    again = params_from_range(low, high, params.dtype)
    assert int(again.zero_point) == int(params.zero_point)
    assert np.isclose(float(again.scale), float(params.scale), rtol=1e-6)
    symmetric = params_from_range(low, high, params.dtype, symmetric=True)
    return {
        "asym.tensor": tensor.name,
        "asym.scale": float(params.scale),
        "asym.zero_point": int(params.zero_point),
        "asym.low": low,
        "asym.high": high,
        "asym.width": high - low,
        "asym.quotient": params.qmin - low / float(params.scale),
        "asym.symmetric_scale": float(symmetric.scale),
        "asym.symmetric_ratio": float(symmetric.scale) / float(params.scale),
    }


def _relu(run: Executed) -> Fields:
    """Quantize the stem's worked value plainly, and say what symmetric would cost it."""
    step = run.steps["stem"]
    params = step.y.params
    at = telling_place(step, CENTRE)
    parts = step.parts(at)
    real = float(parts.exact_steps * Fraction(float(params.scale)))
    q = int(step.output[(EXAMPLE, *at)])
    back = step.real(q)
    low, high = (float(end) for end in range_from_params(params))
    symmetric = params_from_range(low, high, params.dtype, symmetric=True)
    return {
        "relu.scale": float(params.scale),
        "relu.zero_point": int(params.zero_point),
        "relu.low": low,
        "relu.high": high,
        "relu.half_step": float(params.scale) / 2,
        "relu.real": real,
        "relu.steps": float(parts.exact_steps),
        "relu.rounded": round(parts.exact_steps),
        "relu.q": q,
        "relu.back": back,
        "relu.error": back - real,
        "relu.error_steps": float(round(parts.exact_steps) - parts.exact_steps),
        "relu.symmetric_ratio": float(symmetric.scale) / float(params.scale),
    }


def _clipped(step: Step) -> tuple[str | int, ...]:
    """Count values whose rounded integer lies outside the type."""
    steps = _exact_steps(step)
    whole = np.rint(steps) + step.zero_point
    params = step.y.params
    low, high = int((whole < params.qmin).sum()), int((whole > params.qmax).sum())
    relu = "yes" if step.y.folded_relu else ""
    count = steps.size
    return step.y.name, relu, percent(low, count), percent(high, count)


def _exact_steps(step: Step) -> np.ndarray:
    """Give real results in output steps from the zero-point; float64, exact to about 1e-13."""
    out = float(step.y.params.scale)
    if step.multiplies:
        factors = np.array([float(m) for m in step.multiplier()])
        shape = (1, -1) + (1,) * (step.output.ndim - 2)
        return np.asarray(step.accumulators() * factors.reshape(shape))
    whole = [
        operand.astype(np.int64) - side.zero_point
        for side, operand in zip(step.spec.sides, step.operands, strict=True)
    ]
    scales = [float(side.params.scale) for side in step.spec.sides]
    if step.spec.kind == "Add":
        return np.asarray((whole[0] * scales[0] + whole[1] * scales[1]) / out)
    values = whole[0].shape[2] * whole[0].shape[3]
    return np.asarray(whole[0].sum(axis=(2, 3), keepdims=True) * scales[0] / (out * values))


def _uint8(run: Executed) -> str:
    pairs = [
        (tensor, run.uint8_network.tensor(tensor.name))
        for tensor in run.network.tensors
        if tensor.role == "activation"
    ]
    return rows(
        (
            one.name,
            f"{float(one.params.scale):.6g}",
            int(one.params.zero_point),
            int(other.params.zero_point),
        )
        for one, other in pairs
        if one.params.scale == other.params.scale
    )


def _channels(weight: QuantTensor) -> Fields:
    scales = weight.params.scale.astype(np.float64)
    fine, coarse = int(scales.argmin()), int(scales.argmax())
    integers = weight.integers()[fine].astype(np.float64)
    kept = np.rint(integers * scales[fine] / scales[coarse])
    return {
        "channels.count": len(scales),
        "channels.fine": fine,
        "channels.fine_scale": float(scales[fine]),
        "channels.coarse": coarse,
        "channels.coarse_scale": float(scales[coarse]),
        "channels.ratio": float(scales[coarse] / scales[fine]),
        "channels.fine_largest": int(np.abs(integers).max()),
        "channels.fine_largest_shared": int(np.abs(kept).max()),
    }
