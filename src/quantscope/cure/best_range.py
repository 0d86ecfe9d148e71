"""Best range: between a step that is too coarse and values that are clipped lies the least error.

For an activation the curve of both against the range comes from counts of the float network's
values on calibration samples, for a weight from its float values, channel by channel. The least
error of a tensor need not be the least error of the answers, so the range may also be chosen by
what the whole network gives on the calibration samples.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from quantscope.cure.outcome import OutputError
from quantscope.cure.range_choices import RangeChoice, range_choices
from quantscope.cure.readings import Readings
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.cure.treatment import ModelOrEditor, finish, join_reasons, open_readings
from quantscope.data import SamplesSource
from quantscope.edit import Edit, find_target
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import ModelSource, QuantTensor
from quantscope.progress import Progress, silent
from quantscope.run import BestRanges, best_ranges

RangeBy = Literal["mean square", "effect"]

KIND = "best range"
_LEAST_GAIN_DB = 0.01


def choose_ranges(
    model: ModelOrEditor,
    samples: SamplesSource,
    *,
    targets: Sequence[str] = (),
    by: RangeBy = "mean square",
    edits: Sequence[Edit] = (),
    float_model: ModelSource | None = None,
    progress: Progress = silent,
) -> Cure:
    """Give tensors the ranges that cost least: all of them, or those of `targets`.

    A target is a tensor, a layer (its weights and its output), `weights` or `activations`.
    `by="mean square"` takes the least error of the tensor's own values; `by="effect"` tries ranges
    one tensor after the other, and keeps the one with which the outputs on the samples are nearest
    to the float network's. Tensors that share a scale get one range, for the values of all.
    """
    if by not in ("mean square", "effect"):
        raise BadConfigError(f"A range is chosen by 'mean square' or by 'effect', not by {by!r}")
    readings = open_readings(model, samples, float_model)
    editor, in_force = readings.editor, tuple(edits)
    now = {c.tensor: c.after for c in editor.preview(in_force).changes}
    rescaled = {name for pair, _ in editor.rescaled_by(in_force) for name in pair.between}
    left_out: list[LeftOut] = []
    groups = list(_groups(readings, _chosen(readings, targets)))
    counted: BestRanges | None = None
    wanted = [t.name for group in groups for t in group if t.role == "activation"]
    if wanted:
        counted = best_ranges(
            editor.model,
            readings.samples,
            wanted,
            float_model=readings.original,
            progress=progress,
        )
    before = readings.errors(in_force, what="Comparing layers", progress=progress)
    outputs = OutputError(readings, in_force, progress) if by == "effect" else None
    made: list[Edit] = []
    treated: list[Treated] = []
    for place, group in enumerate(groups):
        progress("Choosing ranges", place, len(groups))
        first = group[0]
        params = now.get(first.name, first.params)
        if params is None:
            left_out.append(LeftOut(first.name, "it is switched off"))
            continue
        if not rescaled.isdisjoint(t.name for t in group):
            left_out.append(LeftOut(first.name, "its channels are rescaled, and its range with it"))
            continue
        try:
            choices = list(
                range_choices(
                    readings, group, params, counted, edits=in_force, tries=by == "effect"
                )
            )
            editor.preview([*in_force, *made, *choices[0].edits])
        except (BadConfigError, BadModelError) as error:
            left_out.append(LeftOut(first.name, str(error).rstrip(".")))
            continue
        found = choices[0]
        if outputs is not None:
            best = outputs.best([each.edits for each in choices])
            if best is None:
                left_out.append(LeftOut(first.name, "no other range brings the outputs nearer"))
                continue
            found = choices[best]
        elif found.gain_db < _LEAST_GAIN_DB:
            left_out.append(LeftOut(first.name, "its range is the best already"))
            continue
        made += found.edits
        treated.append(_treated(group, found, by))
    progress("Choosing ranges", len(groups), len(groups))
    if not made:
        raise DoesNotApplyError(
            f"Best range does not apply to {editor.model.name}: none of {len(groups)} ranges is "
            f"changed; {join_reasons(left_out)}"
        )
    what = "of its own values" if by == "mean square" else "of the network's outputs"
    return finish(
        KIND,
        readings,
        explanation=(
            f"Each range is the one with the least squared error {what}, rounding and clipping "
            f"together, on the calibration samples"
        ),
        in_force=in_force,
        made=made,
        treated=treated,
        left_out=left_out,
        before=before,
        progress=progress,
    )


def _chosen(readings: Readings, targets: Sequence[str]) -> list[QuantTensor]:
    """Find the tensors that are meant; biases have no range of their own."""
    network = readings.editor.network
    roles = {"weights": "weight", "activations": "activation"}
    found: dict[str, QuantTensor] = {}
    for target in targets or roles:
        if target in roles:
            chosen = [t for t in network.tensors if t.role == roles[target]]
        else:
            chosen = list(find_target(network, target))
        found |= {t.name: t for t in chosen if t.role != "bias"}
    if not found:
        raise DoesNotApplyError(
            f"Best range does not apply to {', '.join(targets)}: a bias has "
            "the range that its scales give it"
        )
    return list(found.values())


def _groups(readings: Readings, chosen: Sequence[QuantTensor]) -> Iterator[list[QuantTensor]]:
    """Give tensors together that have their scale in common, those of other layers as well."""
    tensors = {t.name: t for t in readings.editor.network.tensors}
    done: set[str] = set()
    for tensor in chosen:
        if tensor.name in done:
            continue
        mates = [name for name in readings.editor.scale_mates(tensor.name) if name in tensors]
        done |= {tensor.name, *mates}
        yield [tensor, *(tensors[name] for name in mates)]


def _treated(group: Sequence[QuantTensor], found: RangeChoice, by: RangeBy) -> Treated:
    others = f" (and {', '.join(t.name for t in group[1:])})" * bool(group[1:])
    gain = (
        f"{abs(found.gain_db):.2f} dB {'less' if found.gain_db >= 0 else 'more'} error of its own"
        if by == "effect"
        else (f"{found.gain_db:.2f} dB less error")
    )
    return Treated(
        group[0].name,
        f"{found.text}: {gain}{others}",
        {
            "today": found.today,
            "rounding": found.rounding,
            "clipping": found.clipping,
            "gain_db": found.gain_db if np.isfinite(found.gain_db) else None,
            "shared_with": [t.name for t in group[1:]],
        },
    )
