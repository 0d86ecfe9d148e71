"""Weights and biases: what rounding them to integers did."""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.model import Network, QuantTensor
from quantscope.model.network import Layer, Operand
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.model.pairing_constants import Constants
from quantscope.run.compare_graph import CLIP_TOLERANCE
from quantscope.run.compare_results import (
    ChannelComparison,
    Spread,
    TensorComparison,
    Uncompared,
)
from quantscope.run.compare_statistics import ideal_rmse_steps, sqnr_db, worst_channels

Values = NDArray[np.float64]


def compare_constants(
    float_network: Network, quantized: Network, pairing: Pairing
) -> tuple[dict[str, TensorComparison], list[Uncompared]]:
    """By name; and those of which no float values are at hand."""
    constants = Constants(float_network), Constants(quantized)
    found: dict[str, TensorComparison] = {}
    missing: list[Uncompared] = []
    for pair in pairing.pairs:
        if pair.role == "activation":
            continue
        result = _compare(pair, float_network, quantized, constants)
        if isinstance(result, str):
            missing.append(Uncompared(pair.name, pair.role, result))
        else:
            found[pair.name] = result
    return found, missing


def _compare(
    pair: TensorPair, floats: Network, quants: Network, constants: tuple[Constants, Constants]
) -> TensorComparison | str:
    tensor = quants.tensor(pair.name)
    if pair.layer is None or pair.float_layer is None:
        return "no layer reads it"
    layer, float_layer = quants.layer(pair.layer), floats.layer(pair.float_layer)
    if pair.through:
        return _compare_folded(pair, tensor, layer)
    mine = next((o for o in layer.inputs if o.quant and o.quant.name == pair.name), None)
    theirs = next((o for o in float_layer.inputs if o.name == pair.float_name), None)
    q = _read(constants[1], mine)
    f = _read(constants[0], theirs)
    if q is None or f is None:
        return "its values are not stored in the file"
    if _is_transposed(layer) != _is_transposed(float_layer) and f.ndim == 2:
        f = f.T
    if f.shape != q.shape:
        if f.size != q.size or pair.role == "weight":
            return f"its shape is {list(q.shape)}, the float one's {list(f.shape)}"
        f = f.reshape(q.shape)
    return compared(pair, tensor, f, q, channel_axis(layer, q.ndim))


def _compare_folded(pair: TensorPair, tensor: QuantTensor, layer: Layer) -> TensorComparison | str:
    """With what the float network does after the layer, and the quantized one in its constants."""
    values = pair.float_values()
    if values is None or not tensor.has_data or values.shape != tensor.integers().shape:
        folded = ", ".join(pair.through)
        return f"{folded} was folded into it: the float model does not hold what it was made from"
    f, q = (np.asarray(v, np.float64) for v in (values, tensor.values()))
    return compared(pair, tensor, f, q, channel_axis(layer, q.ndim))


def _read(constants: Constants, operand: Operand | None) -> Values | None:
    array = None if operand is None else constants.array(operand)
    return None if array is None else np.asarray(array, np.float64)


def _is_transposed(layer: Layer) -> bool:
    return layer.op_type == "Gemm" and bool(layer.attributes.get("transB", 0))


def channel_axis(layer: Layer, rank: int) -> int:
    """Of output channels, as the layer reads the constant."""
    if rank < 2 or layer.op_type == "Conv" or _is_transposed(layer):
        return 0
    return 1 if layer.op_type == "ConvTranspose" else rank - 1


def compared(
    pair: TensorPair, tensor: QuantTensor, f: Values, q: Values, axis: int
) -> TensorComparison:
    error = q - f
    exact = not error.any()
    params: QuantParams = tensor.params
    if not np.isfinite(f).all():
        return TensorComparison(
            pair.name, pair.float_name, pair.layer, pair.role, params.bits, None, None, False,
            no_sources="the float values are not all finite",
        )  # fmt: skip
    sqnr = sqnr_db(float((f * f).sum()), float((error * error).sum()))
    step, low, high = _grid(params, tensor, f.shape)
    channels = _channels(f, q, axis, (step, low, high))
    return TensorComparison(
        name=pair.name,
        float_name=pair.float_name,
        layer=pair.layer,
        role=pair.role,
        bits=params.bits,
        sqnr_db=sqnr,
        local_sqnr_db=sqnr,
        exact=exact,
        clipped_low_fraction=None if low is None else float((f < low).mean()),
        clipped_high_fraction=None if high is None else float((f > high).mean()),
        used_share_of_range=_used(f, low, high),
        float_values=_spread(f),
        quantized_values=_spread(q),
        rmse_steps=None if step is None else sqrt(float(((error / step) ** 2).mean())),
        local_rmse_steps=None if step is None else sqrt(float(((error / step) ** 2).mean())),
        ideal_rmse_steps=ideal_rmse_steps(float((f != 0).mean())),
        cosine=_cosine(f, q),
        no_sources="a constant has no sources but its rounding",
        channels=channels,
        worst_channels=worst_channels(channels),
    )


def _grid(
    params: QuantParams, tensor: QuantTensor, shape: tuple[int, ...]
) -> tuple[Values | None, Values | None, Values | None]:
    """Step and ends, to broadcast; None where the layer reads the constant in another layout."""
    if not params.is_per_tensor and tensor.shape != shape:
        return None, None, None
    low, high = params.representable_range
    beyond = (high - low) * CLIP_TOLERANCE
    ends = params.step, low - beyond, high + beyond
    step, low, high = (params.expand(v, shape) for v in ends)
    return step, low, high


def _used(f: Values, low: Values | None, high: Values | None) -> float | None:
    """Per-tensor only: with a range for each channel there is no one share."""
    if low is None or high is None or low.ndim:
        return None
    used = np.clip([f.min(), f.max()], low, high)
    return float((used[1] - used[0]) / (high - low))


def _spread(values: Values) -> Spread:
    return Spread(*(float(v) for v in (values.min(), values.max(), values.mean(), values.std())))


def _channels(
    f: Values, q: Values, axis: int, grid: tuple[Values | None, Values | None, Values | None]
) -> tuple[ChannelComparison, ...]:
    if f.ndim == 0:
        return ()
    floats, quants = (_rows(v, axis) for v in (f, q))
    step, low, high = (
        None if v is None else _rows(np.broadcast_to(v, f.shape), axis) for v in grid
    )
    error = quants - floats
    sums = {
        "signal": _squares(floats),
        "error": _squares(error),
        "quantized": _squares(quants),
        "product": (floats * quants).sum(axis=1),
    }
    columns: dict[str, Values | None] = {
        "rmse": np.sqrt((error * error).mean(axis=1)),
        "clipped_low_fraction": None if low is None else (floats < low).mean(axis=1),
        "clipped_high_fraction": None if high is None else (floats > high).mean(axis=1),
        "used_share_of_range": _used_shares(floats, low, high),
        "rmse_steps": None if step is None else np.sqrt(((error / step) ** 2).mean(axis=1)),
        **{f"float_{name}": values for name, values in _spreads(floats).items()},
        **{f"quantized_{name}": values for name, values in _spreads(quants).items()},
    }
    not_zero = (floats != 0).mean(axis=1)
    return tuple(
        _channel(
            channel,
            {name: float(values[channel]) for name, values in sums.items()},
            {name: None if v is None else _or_none(v[channel]) for name, v in columns.items()},
            float(not_zero[channel]),
        )
        for channel in range(len(floats))
    )


def _channel(
    channel: int, sums: dict[str, float], columns: dict[str, Any], not_zero: float
) -> ChannelComparison:
    sqnr = sqnr_db(sums["signal"], sums["error"])
    size = sums["signal"] * sums["quantized"]
    return ChannelComparison(
        channel=channel,
        sqnr_db=sqnr,
        local_sqnr_db=sqnr,
        local_rmse_steps=columns["rmse_steps"],
        ideal_rmse_steps=ideal_rmse_steps(not_zero),
        cosine=sums["product"] / sqrt(size) if size > 0 else None,
        **columns,
    )


def _squares(rows: Values) -> Values:
    return np.asarray((rows * rows).sum(axis=1))


def _spreads(rows: Values) -> dict[str, Values]:
    return {
        "min": rows.min(axis=1),
        "max": rows.max(axis=1),
        "mean": rows.mean(axis=1),
        "std": rows.std(axis=1),
    }


def _used_shares(f: Values, low: Values | None, high: Values | None) -> Values | None:
    """Of each channel; NaN where it has several ranges."""
    if low is None or high is None or not f.size:
        return None
    ends = low[:, 0], high[:, 0]
    used = [np.clip(v, *ends) for v in (f.min(axis=1), f.max(axis=1))]
    is_one = np.logical_and(*((v == v[:, :1]).all(axis=1) for v in (low, high)))
    return np.where(is_one, (used[1] - used[0]) / (ends[1] - ends[0]), np.nan)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _cosine(f: Values, q: Values) -> float | None:
    size = float((f * f).sum() * (q * q).sum())
    return float((f * q).sum() / sqrt(size)) if size > 0 else None


def _rows(values: Values, axis: int) -> Values:
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
