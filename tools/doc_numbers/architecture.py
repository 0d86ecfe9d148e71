"""Compute for page 04 the whole network as hardware sees it."""

from collections import Counter
from fractions import Fraction

import numpy as np
import onnx

from doc_numbers.boundary import CENTRE
from doc_numbers.executed import EXAMPLE, Executed, Step, telling_place
from doc_numbers.formatting import Fields, percent, place, rows
from quantscope.arithmetic import fixed_point_multiplier
from quantscope.model import Layer, Network, bundled_models
from quantscope.model.residuals import Residual, residuals
from quantscope.run import kernel_map


def fields(run: Executed) -> Fields:
    network = run.network
    nodes = Counter(node.op_type for node in onnx.load(bundled_models()["resnet8-int8"]).graph.node)
    return {
        "layers.rows": rows(_layer(layer) for layer in network.layers),
        "macs": network.macs or 0,
        "weight_bytes": network.weight_bytes or 0,
        "peak_bytes": network.peak_live_bytes or 0,
        "peak_layers": ", ".join(
            f"`{layer.name}`"
            for layer in network.layers
            if layer.live_bytes == network.peak_live_bytes
        ),
        "activation.rows": _activations(network),
        "weight.rows": _weights(network),
        "bias_bytes": sum(4 * t.integers().size for t in network.tensors if t.role == "bias"),
        "nodes.quantize": nodes["QuantizeLinear"],
        "nodes.dequantize": nodes["DequantizeLinear"],
        "nodes.conv": nodes["Conv"],
        "nodes.add": nodes["Add"],
        "requantized": sum(step.output[0].size for step in run.steps.values()),
        **_kernels(network),
        **_residuals(run),
        **_pool(run.steps["pool"]),
    }


def _shape(layer: Layer, *, output: bool) -> str:
    operand = layer.outputs[0] if output else layer.activations[0]
    return "×".join(str(dim) for dim in (operand.shape or ())[1:])


def _layer(layer: Layer) -> tuple[str | int, ...]:
    facts = layer.attributes
    window = ""
    if layer.op_type == "Conv":
        kernel, strides, pads = (facts[name] for name in ("kernel_shape", "strides", "pads"))
        assert all(isinstance(fact, tuple) for fact in (kernel, strides, pads))
        window = f"{kernel[0]}×{kernel[1]}, {strides[0]}, {place(pads)}"
    return (
        f"`{layer.name}`",
        layer.op_type,
        _shape(layer, output=False),
        _shape(layer, output=True),
        window,
        f"{layer.macs or 0:,}",
        f"{layer.weight_bytes or 0:,}",
        f"{layer.live_bytes or 0:,}",
    )


def _activations(network: Network) -> str:
    found = []
    for tensor in network.tensors:
        if tensor.role != "activation":
            continue
        params = tensor.params
        low, high = (float(end) for end in params.representable_range)
        readers = ", ".join(f"`{name}`" for name in tensor.consumers)
        found.append(
            (
                f"`{tensor.name}`",
                f"{float(params.scale):.9g}",
                int(params.zero_point),
                f"{low:.4g} .. {high:.4g}",
                "yes" if tensor.folded_relu else "",
                readers,
            )
        )
    return rows(found)


def _weights(network: Network) -> str:
    found = []
    for tensor in network.tensors:
        if tensor.role != "weight":
            continue
        scales = tensor.params.scale.astype(np.float64)
        found.append(
            (
                f"`{tensor.name}`",
                "×".join(str(dim) for dim in tensor.shape or ()),
                scales.size,
                f"{scales.min():.4g}",
                f"{scales.max():.4g}",
                f"{scales.max() / scales.min():.3g}",
            )
        )
    return rows(found)


def _kernels(network: Network) -> Fields:
    """Tell what onnxruntime's optimizer makes of the file, int8 kernels forbidden and allowed."""
    path = bundled_models()["resnet8-int8"]
    forbidden, allowed = (kernel_map(path, int8_kernels=choice) for choice in (False, True))
    lines = [
        (
            f"`{off.name}`",
            off.op_type,
            f"{off.executed_as}" + (" (as uint8)" if off.saturates else ""),
            f"{on.executed_as}",
        )
        for off, on in zip(forbidden.layers, allowed.layers, strict=True)
    ]
    assert len(lines) == len(network.layers)
    return {
        "kernel.rows": rows(lines),
        "kernel.computing": allowed.computing_layers,
        "kernel.forbidden": forbidden.integer_layers,
        "kernel.allowed": allowed.integer_layers,
    }


def _residuals(run: Executed) -> Fields:
    found = residuals(run.network)
    worked = run.steps[found[0].layer]
    adds = [run.steps[residual.layer] for residual in found]
    total = sum(step.output.size for step in adds)
    twice = sum(int((_rounded_apart(step) != step.output).sum()) for step in adds)
    short = sum(int((_short_mantissa(step) != step.output).sum()) for step in adds)
    return {
        "residual.rows": rows(_residual(residual) for residual in found),
        "residual.smallest_ratio": min(residual.ratio for residual in found),
        "residual.largest_ratio": max(residual.ratio for residual in found),
        "residual.most_lost": max(residual.smaller.bits_lost or 0 for residual in found),
        "residual.values": total,
        "residual.apart": twice,
        "residual.apart_share": percent(twice, total),
        "residual.short": short,
        **_worked_add(worked),
    }


def _residual(residual: Residual) -> tuple[str, ...]:
    a, b = residual.branches
    smaller = residual.smaller
    return (
        f"`{residual.layer}`",
        f"`{a.source}` {a.step:.6g}",
        f"`{b.source}` {b.step:.6g}",
        f"{residual.output_step:.6g}",
        f"{residual.ratio:.2f}",
        f"`{smaller.source}`",
        f"{smaller.bits_lost:.2f}",
        f"{smaller.effective_bits:.2f}",
    )


def _factors(step: Step) -> list[Fraction]:
    out = Fraction(float(step.y.params.scale))
    return [Fraction(float(side.params.scale)) / out for side in step.spec.sides]


def _centred(step: Step) -> list[np.ndarray]:
    return [
        operand.astype(np.int64) - side.zero_point
        for side, operand in zip(step.spec.sides, step.operands, strict=True)
    ]


def _rounded_apart(step: Step) -> np.ndarray:
    """Round each branch to the output's steps before the two are added."""
    parts = zip(_centred(step), _factors(step), strict=True)
    steps = sum(np.rint(whole * float(factor)) for whole, factor in parts)
    return np.asarray(np.clip(steps + step.zero_point, -128, 127))


def _short_mantissa(step: Step) -> np.ndarray:
    """Add with 16-bit mantissas of one common shift, one rounding, half up."""
    factors = [float(factor) for factor in _factors(step)]
    shift = 16 - int(np.frexp(max(factors))[1])
    mantissas = [round(factor * 2**shift) for factor in factors]
    parts = zip(_centred(step), mantissas, strict=True)
    total = sum(whole * mantissa for whole, mantissa in parts)
    steps = (np.asarray(total) + (1 << (shift - 1))) >> shift
    return np.asarray(np.clip(steps + step.zero_point, -128, 127))


def _worked_add(step: Step) -> Fields:
    at = telling_place(step, CENTRE)
    parts = step.parts(at)
    q = int(step.output[(EXAMPLE, *at)])
    made: Fields = {
        "add.layer": step.name,
        "add.at": place(at),
        "add.y_scale": float(step.y.params.scale),
        "add.y_zero_point": step.zero_point,
        "add.steps": float(parts.exact_steps),
        "add.rounded": round(parts.exact_steps),
        "add.q": q,
        "add.real": step.real(q),
    }
    for letter, side, term, multiplier in zip(
        "ab", step.spec.sides, parts.terms, parts.multipliers, strict=True
    ):
        made |= {
            f"add.{letter}": side.tensor.name,
            f"add.{letter}_q": term.x,
            f"add.{letter}_scale": float(side.params.scale),
            f"add.{letter}_zero_point": side.zero_point,
            f"add.{letter}_centred": term.x_centred,
            f"add.{letter}_multiplier": multiplier.float64,
            f"add.{letter}_steps": term.steps,
        }
    return made


def _pool(step: Step) -> Fields:
    at = telling_place(step, (0, 0))
    parts = step.parts(at)
    (multiplier,) = parts.multipliers
    mantissa, shift = fixed_point_multiplier(multiplier.float64)
    q = int(step.output[(EXAMPLE, *at)])
    return {
        "pool.channel": at[0],
        "pool.count": len(parts.terms),
        "pool.x_scale": float(step.spec.sides[0].params.scale),
        "pool.x_zero_point": step.spec.sides[0].zero_point,
        "pool.y_scale": float(step.y.params.scale),
        "pool.y_zero_point": step.zero_point,
        "pool.raw_sum": sum(term.x for term in parts.terms),
        "pool.sum": int(parts.sum or 0),
        "pool.largest_sum": 255 * len(parts.terms),
        "pool.multiplier": multiplier.float64,
        "pool.mantissa": mantissa,
        "pool.right_shift": 31 - shift,
        "pool.steps": float(parts.exact_steps),
        "pool.rounded": round(parts.exact_steps),
        "pool.q": q,
        "pool.real": step.real(q),
        "pool.finer": float(step.spec.sides[0].params.scale) / float(step.y.params.scale),
    }
