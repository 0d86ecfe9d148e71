"""This module lets biases follow: they count in steps of input scale times weight scale.

Integer kernels take that product for granted, so it must hold whatever an edit makes of the two.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.edit.plan import EditPlan
from quantscope.edit.values import FloatValues, rescale, with_edits
from quantscope.edit.wiring import BiasSite, Wiring
from quantscope.errors import BadConfigError

Array = NDArray[Any]

_LARGEST = 2**31 - 1
_BIAS = QuantParams(1.0, None, "int32")
"""The type and ends of every bias, whatever its scale."""


@dataclass(frozen=True)
class BiasOutcome:
    """The new bias of a layer: integers with their scale, or real values where it is switched off.

    What it does not have is None.
    """

    site: BiasSite
    scale: Array | None
    integers: Array | None
    real: Array | None


def bias_outcomes(
    plan: EditPlan,
    wiring: Wiring,
    floats: FloatValues,
    note: Callable[[str], None],
) -> Iterator[BiasOutcome]:
    """Find the new bias of every layer whose bias an edit reaches, directly or by its scales.

    Where its input or weights are float, there is no rule that it could follow: it stays as stored.
    """
    reached = {*plan.off, *plan.params, *plan.integers, *plan.shifts, *plan.factors}
    for site in wiring.sites_of(reached):
        # One whose scale is too small to be shown is no tensor: it goes with its weights.
        if (site.name if site.name in wiring.tensors else site.w) in plan.off:
            yield BiasOutcome(site, None, None, _float_bias(site, wiring, floats, plan))
            continue
        edits = plan.integers.get(site.name, [])
        shift = plan.shifts.get(site.name)
        is_rescaled = site.name in plan.factors
        follows = is_rescaled or not plan.params.keys().isdisjoint((site.x, site.w))
        if not edits and shift is None and not follows:
            continue
        scale, integers = read_stored_bias(site, wiring)
        wanted, moved = _moved(site, wiring, plan)
        if is_rescaled:
            moved = np.ones(moved.shape, bool)
        if moved.any():
            scale, integers = wanted, _derive(site, wiring, floats, plan, wanted, moved)
        if shift is not None:
            integers = _shifted(site, integers, scale, shift)
        if edits:
            integers = with_edits(integers, _BIAS, edits, axis=0, note=note)
        if moved.any() or edits or shift is not None:
            yield BiasOutcome(site, scale, integers, None)


def _moved(site: BiasSite, wiring: Wiring, plan: EditPlan) -> tuple[Array, Array]:
    """Give the bias's scale, as the file would store it, and which of its channels are new."""
    kept, _ = read_stored_bias(site, wiring)
    if plan.off & {site.x, site.w}:
        return kept, np.zeros(kept.shape, bool)
    before, after = product(site, wiring, EditPlan()), product(site, wiring, plan)
    # What overflows or vanishes in a narrower type is refused in `_check`, with a line for people.
    with np.errstate(over="ignore", under="ignore"):
        scale = after.astype(kept.dtype)
    if scale.size < kept.size:
        scale = np.broadcast_to(scale, kept.size)
    fits = scale.size == kept.size
    return (np.array(scale.reshape(kept.shape)) if fits else scale), before != after


def product(site: BiasSite, wiring: Wiring, plan: EditPlan) -> Array:
    """Compute the scale that the bias must have, in float32 as onnxruntime's quantizer does."""
    x, w = (plan.params_of(wiring.tensors[name]).scale for name in (site.x, site.w))
    with np.errstate(over="ignore", under="ignore"):
        found = np.float32(site.factor) * x.astype(np.float32) * w.astype(np.float32).reshape(-1)
    return np.asarray(found, np.float32)


def read_stored_bias(site: BiasSite, wiring: Wiring) -> tuple[Array, Array]:
    """Read scale and integers as the unedited graph has them."""
    node = wiring.graph.node(site.dequantize)
    scale, integers = wiring.graph.array(node.input[1]), wiring.graph.array(node.input[0])
    assert scale is not None and integers is not None
    return scale, integers


def is_derived(site: BiasSite, wiring: Wiring) -> bool:
    """Tell whether the file itself keeps to input scale times weight scale, but for rounding."""
    scale, _ = read_stored_bias(site, wiring)
    return bool(
        np.allclose(scale.reshape(-1), product(site, wiring, EditPlan()), rtol=1e-4, atol=0)
    )


def _float_bias(site: BiasSite, wiring: Wiring, floats: FloatValues, plan: EditPlan) -> Array:
    scale, integers = read_stored_bias(site, wiring)
    real = floats.named(
        site.name,
        lambda: np.asarray(integers * scale.astype(np.float32), np.float32).astype(scale.dtype),
    )
    return rescale(real, plan.factors.get(site.name))


def _derive(
    site: BiasSite,
    wiring: Wiring,
    floats: FloatValues,
    plan: EditPlan,
    scale: Array,
    moved: Array,
) -> Array:
    """Round the float bias to its new scale; raise if that leaves int32."""
    real = _float_bias(site, wiring, floats, plan).astype(np.float32)
    old_scale, old = read_stored_bias(site, wiring)
    _check(site, wiring, plan, real, scale, old_scale)
    fresh = _steps(real, scale).astype(np.int32)
    if is_derived(site, wiring):  # channels whose scale stays keep their integers
        fresh = np.where(np.broadcast_to(moved, old.shape), fresh, old)
    return fresh


def _shifted(site: BiasSite, integers: Array, scale: Array, shift: Array) -> Array:
    """Add real values, rounded to whole steps; raise if that leaves int32."""
    by = _steps(shift.reshape(integers.shape), np.broadcast_to(scale, integers.shape))
    found = integers.astype(np.float64) + by
    if not (np.abs(found) <= _LARGEST).all():
        channel = int(np.argmax(~(np.abs(found.ravel()) <= _LARGEST)))
        raise BadConfigError(
            f"The bias of {site.layer} would leave int32 in channel {channel}: {shift[channel]:g} "
            f"is added, in steps of {np.broadcast_to(scale, integers.shape).ravel()[channel]:.3g}"
        )
    return found.astype(np.int32)


def _check(
    site: BiasSite, wiring: Wiring, plan: EditPlan, real: Array, scale: Array, old_scale: Array
) -> None:
    """Raise if the bias would have no legal scale or leave int32; say which scale would do.

    The line speaks of the input's scale if the plan moves that one, else of the weights'.
    """
    tiny = float(ml_dtypes.finfo(scale.dtype).smallest_normal)  # type: ignore[no-untyped-call]
    values = real.ravel()
    wide = np.broadcast_to(scale.reshape(-1).astype(np.float32), values.shape)
    # onnxruntime itself writes a denormal scale for a channel whose weights are all but zero.
    was_tiny = np.broadcast_to(old_scale.reshape(-1) < tiny, values.shape)
    no_scale = ~np.isfinite(wide) | (wide <= 0) | ((wide < tiny) & ~was_tiny)
    bad = no_scale | ~_fits(values, wide)
    if not bad.any():
        return
    by_input = site.x in plan.params
    name, other = (site.x, site.w) if by_input else (site.w, site.x)
    rest = np.float32(site.factor) * plan.params_of(wiring.tensors[other]).scale.astype(np.float32)
    rest = np.broadcast_to(rest.reshape(-1), values.shape)
    # Of all channels that fail, the one that needs the largest scale is named.
    needed = np.maximum(np.abs(values) / _LARGEST, tiny) / rest.astype(np.float64)
    channel = int(np.argmax(np.where(bad, needed, -1)))
    if not np.isfinite(wide[channel]):
        raise BadConfigError(
            f"The bias of {site.layer} would have no finite scale in channel {channel}: "
            f"the scale of {name} is too large"
        )
    legal = _smallest(float(needed[channel]), values[channel], rest[channel], tiny)
    per_channel = not by_input and wiring.tensors[name].params.scale.size > 1
    raise BadConfigError(
        f"The bias of {site.layer} would leave int32 in channel {channel}: "
        f"{values[channel]:g} in steps of {wide[channel]:.3g}; the smallest legal scale of "
        f"{name}{f' in channel {channel}' * per_channel} is {legal:.9g}"
    )


def _fits(real: Array, scale: Array) -> Array:
    steps = _steps(real, scale)
    return np.asarray((steps >= -_LARGEST - 1) & (steps <= _LARGEST))


def _steps(real: Array, scale: Array) -> Array:
    """Round to whole steps, dividing in float64 as onnxruntime's quantizer does for biases."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.rint(real.astype(np.float64) / scale.astype(np.float64)))


def _smallest(start: float, real: np.float32, rest: np.float32, tiny: float) -> float:
    """Find the first float32 near `start` that, times `rest`, is a legal scale."""
    legal = np.float32(start)
    for _ in range(4):  # rounding may make a little less than `start` legal too
        legal = np.nextafter(legal, np.float32(0))
    while True:
        with np.errstate(under="ignore"):
            scale = np.asarray([legal * rest], np.float32)
        if scale[0] >= tiny and _fits(np.asarray([real]), scale)[0]:
            return float(legal)
        legal = np.nextafter(legal, np.float32(np.inf))
