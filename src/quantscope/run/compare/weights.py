"""Compare stored weights and biases with the float ones: what rounding them did."""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, sqnr_db_of_energies
from quantscope.model import (
    Layer,
    Network,
    Operand,
    QuantTensor,
    compared_channel_axis,
    reads_transposed,
)
from quantscope.model.pairing import Constants, Pairing, TensorPair
from quantscope.run.compare.results import (
    BlockErrors,
    ChannelComparison,
    Spread,
    TensorComparison,
    Uncompared,
)
from quantscope.run.compare.statistics import ideal_rmse_steps, worst_channels
from quantscope.run.compare.sums import CLIP_TOLERANCE

Values = NDArray[np.float64]


def compare_constants(
    pairing: Pairing, constants: tuple[Constants, Constants], *, is_stand_in: bool = False
) -> tuple[dict[str, TensorComparison], list[Uncompared]]:
    """Compare every weight and bias; give them by name, and those without float values at hand.

    `constants` are the float network's, then the quantized one's. `is_stand_in`: the float one is
    the other with its quantizers off, which has its integers where they are not dequantized.
    """
    float_network, quantized = (each.network for each in constants)
    found: dict[str, TensorComparison] = {}
    missing: list[Uncompared] = []
    for pair in pairing.pairs:
        if pair.role == "activation":
            continue
        result = _compare(pair, float_network, quantized, constants)
        if isinstance(result, str):
            if is_stand_in:
                result = "what it was rounded from is in the float model only; give it with --float"
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
    if reads_transposed(layer) != reads_transposed(float_layer) and f.ndim == 2:
        f = f.T
    if f.shape != q.shape:
        # A bias may have axes of length 1 more in one file; a weight may not.
        if f.size != q.size or pair.role == "weight":
            return f"its shape is {list(q.shape)}, the float one's {list(f.shape)}"
        f = f.reshape(q.shape)
    return compare_arrays(pair, tensor, f, q, compared_channel_axis(layer, q.ndim))


def _compare_folded(pair: TensorPair, tensor: QuantTensor, layer: Layer) -> TensorComparison | str:
    """Compare a constant with float values into which the layers after it were folded."""
    values = pair.float_values()
    if values is None or not tensor.has_data or values.shape != tensor.integers().shape:
        folded = ", ".join(pair.through)
        return f"{folded} was folded into it: the float model does not hold what it was made from"
    f, q = (np.asarray(v, np.float64) for v in (values, tensor.values()))
    return compare_arrays(pair, tensor, f, q, compared_channel_axis(layer, q.ndim))


def _read(constants: Constants, operand: Operand | None) -> Values | None:
    array = None if operand is None else constants.array(operand)
    return None if array is None else np.asarray(array, np.float64)


def compare_arrays(
    pair: TensorPair, tensor: QuantTensor, f: Values, q: Values, axis: int
) -> TensorComparison:
    """Compare two arrays of one shape; `axis` is that of the output channels."""
    error = q - f
    exact = not error.any()
    params: QuantParams = tensor.params
    if not np.isfinite(f).all():
        return TensorComparison(
            pair.name, pair.float_name, pair.layer, pair.role, params.bits, None, None, False,
            no_sources="the float values are not all finite",
        )  # fmt: skip
    energy = float((error * error).sum())
    sqnr = sqnr_db_of_energies(float((f * f).sum()), energy)
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
        beyond_low_steps=_beyond(low, f, step),
        beyond_high_steps=_beyond(f, high, step),
        used_share_of_range=_used(f, low, high),
        float_values=_spread(f),
        quantized_values=_spread(q),
        rmse_steps=None if step is None else sqrt(float(((error / step) ** 2).mean())),
        local_rmse_steps=None if step is None else sqrt(float(((error / step) ** 2).mean())),
        ideal_rmse_steps=ideal_rmse_steps(float((f != 0).mean()), energy),
        cosine=_cosine(f, q),
        no_sources="a constant has no sources but its rounding",
        channels=channels,
        worst_channels=worst_channels(channels),
        blocks=_blocks(params, tensor, f, q, axis),
    )


def _blocks(
    params: QuantParams, tensor: QuantTensor, f: Values, q: Values, axis: int
) -> BlockErrors | None:
    """Compare the blocks of a matrix that has a scale for each, along the axis of its inputs."""
    along = params.axis
    if not params.block_size or along is None or f.ndim != 2 or tensor.shape != f.shape:
        return None
    if along % 2 == axis % 2:
        return None
    step, low, high = (
        _by_channel(params.expand(v, f.shape), axis)
        for v in (params.step, *params.representable_range)
    )
    floats, error = _by_channel(f, axis), _by_channel(q - f, axis)
    starts = np.arange(0, floats.shape[1], params.block_size)
    lengths = np.diff(starts, append=floats.shape[1])
    energy, noise, steps = (
        np.add.reduceat(values**2, starts, axis=1) for values in (floats, error, error / step)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        sqnr = np.where((energy > 0) & (noise > 0), 10 * np.log10(energy / noise), np.nan)
    low, high = low[:, starts], high[:, starts]
    ends = (end.reduceat(floats, starts, axis=1) for end in (np.minimum, np.maximum))
    least, most = (np.clip(end, low, high) for end in ends)
    return BlockErrors(sqnr, np.sqrt(steps / lengths), (most - least) / (high - low))


def _grid(
    params: QuantParams, tensor: QuantTensor, shape: tuple[int, ...]
) -> tuple[Values | None, Values | None, Values | None]:
    """Give step and ends, to broadcast; None where the layer reads another layout."""
    if not params.is_per_tensor and tensor.shape != shape:
        return None, None, None
    low, high = params.representable_range
    beyond = (high - low) * CLIP_TOLERANCE
    ends = params.step, low - beyond, high + beyond
    step, low, high = (params.expand(v, shape) for v in ends)
    return step, low, high


def _beyond(above: Values | None, below: Values | None, step: Values | None) -> float | None:
    if above is None or below is None or step is None:
        return None
    return max(0.0, float(((above - below) / step).max()))


def _used(f: Values, low: Values | None, high: Values | None) -> float | None:
    """Give the share of the range that is used; None with a range for each channel."""
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
    floats, quants = (_by_channel(v, axis) for v in (f, q))
    step, low, high = (
        None if v is None else _by_channel(np.broadcast_to(v, f.shape), axis) for v in grid
    )
    error = quants - floats
    signal, energy, other = (_squares(v) for v in (floats, error, quants))
    sqnrs = [
        sqnr_db_of_energies(*pair) for pair in zip(signal.tolist(), energy.tolist(), strict=True)
    ]
    steps = None if step is None else np.sqrt(((error / step) ** 2).mean(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (floats * quants).sum(axis=1) / np.sqrt(signal * other)
    columns: dict[str, Values | list[float | None] | None] = {
        "sqnr_db": sqnrs,
        "local_sqnr_db": sqnrs,
        "rmse": np.sqrt(energy / floats.shape[1]),
        "clipped_low_fraction": None if low is None else (floats < low).mean(axis=1),
        "clipped_high_fraction": None if high is None else (floats > high).mean(axis=1),
        "used_share_of_range": _used_shares(floats, low, high),
        "rmse_steps": steps,
        "local_rmse_steps": steps,
        "ideal_rmse_steps": list(
            map(ideal_rmse_steps, (floats != 0).mean(axis=1).tolist(), energy.tolist())
        ),
        "cosine": _or_none(cosine, signal * other > 0),
    }
    for name, v in (("float", floats), ("quantized", quants)):
        columns[f"{name}_min"], columns[f"{name}_max"] = v.min(axis=1), v.max(axis=1)
        columns[f"{name}_mean"], columns[f"{name}_std"] = v.mean(axis=1), v.std(axis=1)
    # Lists: an element of an array takes longer to get at than to compute with.
    listed = [_listed(values, len(floats)) for values in columns.values()]
    return tuple(
        ChannelComparison(channel=channel, **dict(zip(columns, values, strict=True)))
        for channel, values in enumerate(zip(*listed, strict=True))
    )


def _squares(by_channel: Values) -> Values:
    return np.asarray((by_channel * by_channel).sum(axis=1))


def _used_shares(f: Values, low: Values | None, high: Values | None) -> list[float | None] | None:
    """Give the share of the range that each channel uses; None for one with several ranges."""
    if low is None or high is None:
        return None
    ends = low[:, 0], high[:, 0]
    used = [np.clip(v, *ends) for v in (f.min(axis=1), f.max(axis=1))]
    has_one = np.logical_and(*((v == v[:, :1]).all(axis=1) for v in (low, high)))
    return _or_none((used[1] - used[0]) / (ends[1] - ends[0]), has_one)


def _or_none(values: Values, known: NDArray[np.bool_]) -> list[float | None]:
    return [v if k else None for v, k in zip(values.tolist(), known.tolist(), strict=True)]


def _listed(values: Values | list[float | None] | None, count: int) -> list[Any]:
    if values is None:
        return [None] * count
    return values if isinstance(values, list) else values.tolist()


def _cosine(f: Values, q: Values) -> float | None:
    size = float((f * f).sum() * (q * q).sum())
    return float((f * q).sum() / sqrt(size)) if size > 0 else None


def _by_channel(values: Values, axis: int) -> Values:
    """Lay values out as [channels, the rest]."""
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
