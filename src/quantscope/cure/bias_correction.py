"""Bias correction: what quantization adds to the mean of a channel is taken out of its bias.

Rounded weights and clipped inputs shift every output of a channel by the same amount on average
(Nagel et al. 2019, section 4.2). The shift is measured on calibration samples, layer after layer:
each one in the network whose earlier layers are corrected already, so that their shifts are not
taken out twice. It costs nothing when the model runs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quantscope.cure.readings import MeanSum
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.cure.treatment import ModelOrEditor, check_matched, finish, open_readings
from quantscope.data import SamplesSource
from quantscope.edit import Edit, Editor, ShiftBias
from quantscope.model import ModelSource
from quantscope.progress import Progress, silent

KIND = "bias correction"


def correct_biases(
    model: ModelOrEditor,
    samples: SamplesSource,
    *,
    edits: Sequence[Edit] = (),
    float_model: ModelSource | None = None,
    progress: Progress = silent,
) -> Cure:
    """Take the mean shift of every channel out of the biases, layer after layer.

    `samples` are calibration samples; `edits` are those in force, which the cure builds on. A layer
    whose bias is no quantized parameter of its own is left out, and the cure says so.
    """
    readings = open_readings(model, samples, float_model)
    check_matched("Bias correction", readings)
    in_force, made = tuple(edits), list[Edit]()
    treated: list[Treated] = []
    left_out: list[LeftOut] = list(readings.left_out)
    chosen = [each for each in readings.layers if each.bias is not None]
    left_out += [
        LeftOut(each.name, "it has no stored bias of its own that counts in its scales")
        for each in readings.layers
        if each.bias is None
    ]
    if not chosen:
        raise DoesNotApplyError(
            f"Bias correction does not apply to {readings.editor.model.name}: none of its "
            f"{len(readings.layers)} layers with weights has a quantized bias of its own"
        )
    before = readings.errors(in_force, what="Comparing layers", progress=progress)
    wanted = readings.find_float_means(progress)
    divided = readings.divided_by(in_force)
    for each in chosen:
        total = MeanSum(each.axis)
        now = [*in_force, *made]
        what = f"Measuring the shift of {each.name}"
        for found, _ in readings.read(now, [each.value], what=what, progress=progress):
            total.add(found[each.value])
        # A channel that is rescaled has its mean in other units than the float network.
        shift = wanted[each.name] / divided.get(each.name, 1.0) - total.mean
        edit = ShiftBias(str(each.bias), tuple(float(np.float32(by)) for by in shift))
        if (np.abs(shift) < _step_of(readings.editor, now, edit.tensor) / 2).all():
            left_out.append(LeftOut(each.name, "no channel is shifted by half a step of its bias"))
            continue
        made.append(edit)
        largest = int(np.argmax(np.abs(shift)))
        treated.append(
            Treated(
                str(each.bias),
                f"{shift.size} channels, the largest shift in channel {largest}: "
                f"{shift[largest]:+.3g}",
                {"shift": [float(by) for by in shift], "largest_channel": largest},
            )
        )
    if not made:
        raise DoesNotApplyError(
            f"Bias correction does not apply to {readings.editor.model.name}: no channel is "
            f"shifted by half a step of its bias on {readings.samples.name}"
        )
    return finish(
        KIND,
        readings,
        explanation=(
            "What quantization adds to the mean of each channel is taken out of its bias, layer "
            "after layer; it costs nothing when the model runs"
        ),
        in_force=in_force,
        made=made,
        treated=treated,
        left_out=left_out,
        before=before,
        progress=progress,
    )


def _step_of(editor: Editor, edits: Sequence[Edit], bias: str) -> NDArray[np.float64]:
    """Find the steps that a bias counts in under edits; zeros where they are too small to show."""
    for change in editor.preview(edits).changes:
        if change.tensor == bias and change.after is not None:
            return change.after.scale.astype(np.float64)
    for tensor in editor.network.tensors:
        if tensor.name == bias:
            return tensor.params.scale.astype(np.float64)
    return np.zeros(())
