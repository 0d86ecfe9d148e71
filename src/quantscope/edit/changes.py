"""This module tells what edits did to the tensors of a model, whatever kind of file it is."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams
from quantscope.edit.applied import Change, ChangeKind, EditWarning
from quantscope.edit.biases import BiasOutcome, read_stored_bias
from quantscope.edit.clips import warnings_for
from quantscope.edit.outcome import Outcome
from quantscope.edit.plan import EditPlan
from quantscope.edit.subject import Clips
from quantscope.edit.wiring import Wiring
from quantscope.errors import BadConfigError

NOTHING_CHANGED = "The edits leave the model as it is"


def changes_of(plan: EditPlan, outcome: Outcome, wiring: Wiring) -> Iterator[Change]:
    """List the tensors that are not what they were; a bias that several layers add comes once."""
    for each in outcome.tensors:
        tensor = each.tensor
        if each.params == tensor.params and not each.integers_changed:
            continue
        kind: ChangeKind = "edit" if tensor.name in plan.named else "shared"
        yield Change(
            tensor.name, tensor.role, kind, tensor.params, each.params, each.integers_changed
        )
    by_name: dict[str, BiasOutcome] = {}
    for bias in outcome.biases:
        by_name.setdefault(bias.site.name, bias)
    for bias in by_name.values():
        yield from _bias_change(plan, bias, wiring)


def _bias_change(plan: EditPlan, bias: BiasOutcome, wiring: Wiring) -> Iterator[Change]:
    name = bias.site.name
    scale, old = read_stored_bias(bias.site, wiring)
    changed = 0 if bias.integers is None else int(np.count_nonzero(bias.integers != old))
    same_scale = bias.scale is not None and np.array_equal(scale, bias.scale)
    if bias.real is None and not changed and same_scale:
        return
    shown = wiring.tensors.get(name)
    yield Change(
        tensor=name,
        role="bias",
        kind="edit" if name in plan.named else "bias follows",
        before=shown.params if shown else _bias_params(scale),
        after=None if bias.scale is None else _bias_params(bias.scale),
        integers_changed=changed,
    )


def _bias_params(scale: NDArray[Any]) -> QuantParams | None:
    """Give the parameters of a bias; None for a scale that is too small to show."""
    try:
        return QuantParams(scale, None, "int32", axis=0 if scale.ndim else None)
    except BadConfigError:
        return None


def warnings_of(outcome: Outcome, clips: Clips) -> Iterator[EditWarning]:
    """Warn of quantizers that no longer do a ReLU's work, and of weights that lose symmetry."""
    for each in outcome.tensors:
        tensor, params = each.tensor, each.params
        if params is None:
            continue
        for text in warnings_for(tensor, clips.get(tensor.name, ()), params):
            yield EditWarning(tensor.name, text)
        was_symmetric = tensor.role == "weight" and not tensor.params.zero_point.any()
        if was_symmetric and params.zero_point.any():
            # onnxruntime's integer kernels take it (measured on x86); others need not.
            yield EditWarning(
                tensor.name,
                f"{tensor.name} has a zero-point other than 0: each sum of products needs the sum "
                f"of its inputs too, which kernels and hardware for symmetric weights leave out",
            )


def clip_notes(plan: EditPlan, wiring: Wiring, clips: Clips) -> Iterator[str]:
    """Tell of each ReLU or Clip that is put back where a quantizer is switched off."""
    for name in wiring.in_order(name for name in plan.off if name in clips):
        text = " and a ".join(clip.text for clip in clips[name])
        if all(clip.certain for clip in clips[name]):
            yield f"The {text} that the quantizer of {name} replaced is put back"
        else:
            yield (
                f"No float model says whether the quantizer of {name}, which clips negatives, "
                f"replaced a {text}; one is put in its place"
            )
