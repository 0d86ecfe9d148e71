"""Rounding: which way each weight goes, chosen to keep the layer's outputs on calibration samples.

The nearest integer is best for a weight alone. The errors of many weights add up in an output, and
whether they cancel depends on how the inputs go together. Layer after layer: each sees the inputs
that the layers before it, rounded already, give it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.cure.best_rounding import round_to_keep, row_errors
from quantscope.cure.gram import Gram, as_rows, check_layer, from_rows, transposes_weight
from quantscope.cure.readings import Readings, WeightedLayer
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.cure.treatment import (
    ModelOrEditor,
    check_matched,
    finish,
    join_reasons,
    open_readings,
)
from quantscope.data import SamplesSource
from quantscope.edit import Edit, SetIntegers, pack_integers
from quantscope.errors import BadModelError
from quantscope.model import ModelSource
from quantscope.progress import Progress, silent

Array = NDArray[Any]

KIND = "rounding"


def choose_rounding(
    model: ModelOrEditor,
    samples: SamplesSource,
    *,
    edits: Sequence[Edit] = (),
    float_model: ModelSource | None = None,
    progress: Progress = silent,
) -> Cure:
    """Round the weights of every layer so that its outputs change least, layer after layer.

    Convolutions and products with a constant matrix are rounded, in the scales that they have by
    then; each weight goes to one of the two integers beside it. A change of scales afterwards would
    undo it.
    """
    readings = open_readings(model, samples, float_model)
    check_matched("Rounding", readings)
    editor, in_force = readings.editor, tuple(edits)
    made: list[Edit] = []
    treated: list[Treated] = []
    left_out = list(readings.left_out)
    before = readings.errors(in_force, what="Comparing layers", progress=progress)
    for each in readings.layers:
        try:
            found = _round_layer(readings, each, [*in_force, *made], progress)
        except BadModelError as error:
            left_out.append(LeftOut(each.name, str(error)))
            continue
        if found is None:
            left_out.append(
                LeftOut(each.name, "no rounding that was found is better than its integers")
            )
            continue
        edit, done = found
        try:
            editor.apply([*in_force, *made, edit])
        except BadModelError as error:  # a program that rounds its float weights when it runs
            left_out.append(LeftOut(each.name, str(error)))
            continue
        made.append(edit)
        treated.append(done)
    if not made:
        reasons = join_reasons(left_out)
        raise DoesNotApplyError(f"Rounding does not apply to {editor.model.name}: {reasons}")
    return finish(
        KIND,
        readings,
        explanation=(
            "Each weight goes to the one of the two integers beside it with which its layer's "
            "outputs change least on the calibration samples, layer after layer"
        ),
        in_force=in_force,
        made=made,
        treated=treated,
        left_out=left_out,
        before=before,
        progress=progress,
    )


def _round_layer(
    readings: Readings, each: WeightedLayer, edits: Sequence[Edit], progress: Progress
) -> tuple[Edit, Treated] | None:
    """Round one layer; None where its integers are as good. Raises half a line, why not."""
    layer, editor = each.layer, readings.editor
    weight = layer.weight
    assert weight is not None
    changes = {c.tensor: c.after for c in editor.preview(edits).changes}
    params = changes.get(weight.name, weight.params)
    if params is None:
        raise BadModelError("its weights are off")
    if len(weight.consumers) > 1:
        raise BadModelError(f"its weights are those of {len(weight.consumers)} layers")
    if not weight.has_data or layer.inputs[1].quant is not weight or not layer.activations:
        raise BadModelError("its weights are no stored second input")
    floats = np.asarray(editor.float_values(weight.name, edits), np.float64)
    check_layer(layer, floats.shape)
    scale, zero_point = _of_rows(each, params, floats)
    gram = Gram(layer, floats.shape)
    source = layer.activations[0].name
    what = f"Reading the inputs of {each.name}"
    for found, _ in readings.read(edits, [source], what=what, progress=progress):
        gram.add(found[source])
    steps = as_rows(layer, floats) / scale
    ends = params.qmin - zero_point, params.qmax - zero_point
    now = as_rows(layer, editor.integers_under(edits, weight.name).astype(np.float64)) - zero_point
    chosen = np.stack(
        [
            round_to_keep(steps[group], gram.products[group], ends[0][group], ends[1][group])
            for group in range(gram.groups)
        ]
    )
    errors = [
        sum(
            float(row_errors((rows - steps)[g] * scale[g], gram.products[g]).sum())
            for g in range(gram.groups)
        )
        for rows in (now, chosen)
    ]
    turned = int(np.count_nonzero(chosen != now))
    if not turned or errors[1] >= errors[0]:
        return None
    integers = from_rows(layer, chosen + zero_point, floats.shape)
    gain = float(10 * np.log10(errors[0] / errors[1])) if errors[1] > 0 else float("inf")
    return SetIntegers(weight.name, pack_integers(integers)), Treated(
        weight.name,
        f"{turned:,} of {floats.size:,} integers change: {gain:.2f} dB less error that "
        f"these weights add to the layer's outputs",
        {
            "integers_changed": turned,
            "integers": int(floats.size),
            "gain_db": gain if np.isfinite(gain) else None,
        },
    )


def _of_rows(each: WeightedLayer, params: QuantParams, weight: Array) -> tuple[Array, Array]:
    """Give scale and zero-point as [groups, outputs of a group, 1]; raise if no output has one."""
    rows = as_rows(each.layer, weight)
    if params.block_size:
        raise BadModelError("its weights have a scale for each block")
    axis = 0 if each.layer.op_type == "Conv" or transposes_weight(each.layer) else 1
    if not params.is_per_tensor and params.axis not in (axis, axis - weight.ndim):
        raise BadModelError("its scales are not those of its outputs")
    shape = (*rows.shape[:2], 1)

    def spread(part: Array) -> Array:
        flat = part.reshape(-1).astype(np.float64)
        return np.broadcast_to(flat, rows.shape[0] * rows.shape[1]).reshape(shape)

    return spread(params.scale), spread(params.zero_point)
