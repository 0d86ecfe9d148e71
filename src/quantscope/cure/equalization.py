"""Equalization: channels between two layers are rescaled, so that no channel's weights are lost.

With one scale for all weights of a layer, the channel with the largest sets the step of all. What
is divided out of a channel in one layer is multiplied into the next, across what f(s x) = s f(x)
holds for, and the float function stays (Nagel et al. 2019, section 4.1).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import is_symmetric, params_from_range
from quantscope.cure.readings import Readings
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.cure.treatment import ModelOrEditor, finish, join_reasons, open_readings
from quantscope.data import SamplesSource
from quantscope.edit import Edit, Neighbours, OffRole, ScaleChannels, SetRange
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import ModelSource
from quantscope.progress import Progress, silent

Array = NDArray[Any]

KIND = "equalization"
_MOST_ROUNDS = 200
_SETTLED = 1e-4
"""Rounds end when no factor moves by a larger share."""
_LEAST = 0.01
"""Layers whose factors are all nearer to 1 stay as they are."""


def equalize(
    model: ModelOrEditor,
    samples: SamplesSource,
    *,
    edits: Sequence[Edit] = (),
    float_model: ModelSource | None = None,
    progress: Progress = silent,
) -> Cure:
    """Rescale the channels between layers so that each is as large on both sides.

    Layers that follow one another directly, or across a ReLU, are rescaled; weights and biases are
    rounded anew from the rescaled float ones, and what lies between gets the range of all values
    that it has on the samples. The float function stays, which the explanation holds a number to.
    """
    readings = open_readings(model, samples, float_model)
    editor, in_force = readings.editor, tuple(edits)
    pairs, reasons = editor.neighbours
    left_out = [LeftOut(name, why) for name, why in reasons.items()]
    factors = find_factors(
        pairs, {name: editor.float_values(name, in_force) for name in _weights(pairs)}
    )
    before = readings.errors(in_force, what="Comparing layers", progress=progress)
    extremes = _read_extremes(readings, pairs, progress)
    already = editor.rescaled_by(in_force)
    made: list[Edit] = []
    treated: list[Treated] = []
    for pair in pairs:
        chosen = factors[pair.names]
        if (np.abs(np.log(chosen)) < _LEAST).all():
            left_out.append(LeftOut(pair.first.name, "its channels are as large on both sides"))
            continue
        missing = [name for name in pair.between if name not in extremes]
        if missing:
            left_out.append(
                LeftOut(pair.first.name, f"{missing[0]} has no counterpart in the float model")
            )
            continue
        scaled = ScaleChannels(*pair.names, tuple(map(float, chosen)))
        whole = np.prod([f for each, f in already if each.names == pair.names], axis=0) * chosen
        new = [scaled, *_ranges(readings, pair, extremes, np.asarray(whole))]
        try:
            editor.preview([*in_force, *made, *new])
        except (BadConfigError, BadModelError) as error:
            left_out.append(LeftOut(pair.first.name, str(error).rstrip(".")))
            continue
        made += new
        treated.append(_treated(readings, pair, chosen, in_force))
    if not made:
        raise DoesNotApplyError(
            f"Equalization does not apply to {editor.model.name}: {join_reasons(left_out)}"
        )
    largest, of = _float_difference(readings, [*in_force, *made], progress)
    return finish(
        KIND,
        readings,
        explanation=(
            f"Channels between two layers are divided by factors in the first and multiplied in "
            f"the second, so that their largest weights are the same in both; without quantizers "
            f"the outputs change by at most {largest:.2g} for it (their largest is {of:.3g})"
        ),
        in_force=in_force,
        made=made,
        treated=treated,
        left_out=left_out,
        before=before,
        progress=progress,
    )


def find_factors(
    pairs: Sequence[Neighbours], weights: Mapping[str, Array]
) -> dict[tuple[str, str], Array]:
    """Find what the channels of each pair of layers are divided by, by the names of its layers.

    One pair after the other gets s = sqrt(r1 / r2), with the largest weights r1 and r2 of each
    channel, until none moves: a layer may be the second of one pair and the first of another. A
    channel without weights on one side stays.
    """
    now = {name: np.asarray(array, np.float64) for name, array in weights.items()}
    found = {pair.names: np.ones(pair.channels) for pair in pairs}
    for _ in range(_MOST_ROUNDS):
        moved = 0.0
        for pair in pairs:
            first, second = pair.weight.name, pair.second_weight.name
            r1 = pair.largest_of_outputs(now[first])
            r2 = pair.largest_of_inputs(now[second])
            has_both = (r1 > 0) & (r2 > 0)
            step = np.sqrt(np.where(has_both, r1, 1) / np.where(has_both, r2, 1))
            now[first] = now[first] / pair.over_outputs(step)
            now[second] = now[second] * pair.over_inputs(step)
            found[pair.names] = found[pair.names] * step
            moved = max(moved, float(np.abs(np.log(step)).max()))
        if moved < _SETTLED:
            break
    return {names: each.astype(np.float32).astype(np.float64) for names, each in found.items()}


def _weights(pairs: Sequence[Neighbours]) -> list[str]:
    return [t.name for pair in pairs for t in (pair.weight, pair.second_weight)]


def _read_extremes(
    readings: Readings, pairs: Sequence[Neighbours], progress: Progress
) -> dict[str, tuple[Array, Array]]:
    """Read the least and largest value of each channel between layers in the float network."""
    known = readings.pairing.by_name
    wanted: dict[str, tuple[str, int, int]] = {}
    for pair in pairs:
        axis = 1 if pair.first.op_type == "Conv" else -1
        for name in pair.between:
            matched = known.get(name)
            if matched is not None and not matched.order and not matched.reshaped:
                wanted[name] = matched.float_name, axis, pair.channels
    found: dict[str, tuple[Array, Array]] = {}
    names = list(dict.fromkeys(name for name, _, _ in wanted.values()))
    what = "Reading the float network's channels"
    for _, floats in readings.read((), (), names, what=what, progress=progress):
        for name, (float_name, axis, channels) in wanted.items():
            values = floats[float_name]
            if values.ndim < 2 or values.shape[axis] != channels:
                continue
            rows = np.moveaxis(values, axis, 0).reshape(channels, -1)
            low, high = rows.min(axis=1), rows.max(axis=1)
            if name in found:
                low, high = np.minimum(low, found[name][0]), np.maximum(high, found[name][1])
            found[name] = low, high
    return found


def _ranges(
    readings: Readings,
    pair: Neighbours,
    extremes: Mapping[str, tuple[Array, Array]],
    factors: Array,
) -> list[Edit]:
    """Give the tensors between two layers the range of all that they hold after the factors."""
    found: list[Edit] = []
    done: set[str] = set()
    tensors = {tensor.name: tensor for tensor in readings.editor.stated_network.tensors}
    for name in pair.between:
        if name in done:
            continue
        group = [name, *readings.editor.scale_mates(name)]
        done.update(group)
        low = min(0.0, *(float((extremes[each][0] / factors).min()) for each in group))
        high = max(0.0, *(float((extremes[each][1] / factors).max()) for each in group))
        if low == high:
            continue
        params = tensors[name].params
        if is_symmetric(params):
            # Its own ends, one step apart: those of the values would move its zero-point.
            even = params_from_range(low, high, params.dtype, symmetric=True, ends=params.ends)
            low, high = (float(end) for end in even.representable_range)
        found.append(SetRange(name, low, high))
    return found


def _treated(
    readings: Readings, pair: Neighbours, factors: Array, in_force: Sequence[Edit]
) -> Treated:
    first, second = (
        readings.editor.float_values(tensor.name, in_force).astype(np.float64)
        for tensor in (pair.weight, pair.second_weight)
    )
    r1, r2 = pair.largest_of_outputs(first), pair.largest_of_inputs(second)
    spreads = {
        pair.first.name: (_spread(r1), _spread(r1 / factors)),
        pair.second.name: (_spread(r2), _spread(r2 * factors)),
    }
    told = " and ".join(
        f"{before:.3g} becomes {after:.3g} in {name}" for name, (before, after) in spreads.items()
    )
    return Treated(
        f"{pair.first.name} to {pair.second.name}",
        f"{pair.channels} channels divided by {factors.min():.3g} to {factors.max():.3g}; the "
        f"widest channel's weights over the narrowest's: {told}",
        {
            "factors": [float(factor) for factor in factors],
            "spread": {name: list(values) for name, values in spreads.items()},
            "between": list(pair.between),
        },
    )


def _spread(largest: Array) -> float:
    """Give the largest over the smallest of the channels that have weights."""
    there = largest[largest > 0]
    return float(there.max() / there.min()) if there.size else 1.0


def _float_difference(
    readings: Readings, edits: Sequence[Edit], progress: Progress
) -> tuple[float, float]:
    """Run the network without quantizers, rescaled and not; give the largest difference and value.

    The factors are in the weights of the one and not in those of the other; all else is the same.
    """
    off: list[Edit] = [OffRole("weights"), OffRole("activations")]
    scaled: list[Edit] = [edit for edit in edits if isinstance(edit, ScaleChannels)]
    names = [output.name for output in readings.editor.stated_network.outputs]
    largest = of = 0.0
    runs = (
        readings.read(e, names, what="Comparing the float outputs", progress=progress)
        for e in (off, [*scaled, *off])
    )
    for (plain, _), (rescaled, _) in zip(*runs, strict=True):
        for name in names:
            difference = np.abs(rescaled[name].astype(np.float64) - plain[name])
            largest = max(largest, float(difference.max(initial=0.0)))
            of = max(of, float(np.abs(plain[name]).max(initial=0.0)))
    return largest, of
