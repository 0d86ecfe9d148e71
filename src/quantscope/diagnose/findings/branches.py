"""Branches of an Add or inputs of a Concat of very different size, in one scale."""

from collections.abc import Iterator, Sequence

import numpy as np

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Off
from quantscope.model import Layer, QuantTensor
from quantscope.plain_text import many

KIND = "branch-steps"
WHY = (
    "Where branches meet they get the step of the largest, and a branch of small values is left "
    "with a few integers."
)
_MEETING_OPS = frozenset({"Add", "Concat", "Sum"})
# Of 256 integers, a branch is left with less than 16.
_LEAST_STEPS = 16.0


def small_branches(evidence: Evidence) -> dict[str, tuple[Layer, str, float]]:
    """Give, by the tensor that is left with few steps, where it meets which, and its steps there.

    The step that counts is the coarsest of its own and that of what they become together.
    """
    found = {}
    for layer in evidence.network.layers:
        out = next((o.quant for o in layer.outputs if o.quant), None)
        met = [o.quant for o in layer.activations if o.quant is not None]
        if layer.op_type not in _MEETING_OPS or out is None or len(met) < 2:
            continue
        for tensor in met:
            ends = evidence.ends.get(tensor.name)
            if ends is None or ends.span <= 0 or not out.params.is_per_tensor:
                continue
            step = max(float(np.max(t.params.scale)) for t in (tensor, out))
            steps = ends.span / step
            # A tensor as coarse as that without its neighbours is another finding's.
            if steps < _LEAST_STEPS and _others_are_large(evidence, tensor.name, met):
                found[tensor.name] = (layer, out.name, steps)
    return found


def _others_are_large(evidence: Evidence, name: str, met: Sequence[QuantTensor]) -> bool:
    spans = [evidence.ends[t.name].span for t in met if t.name in evidence.ends and t.name != name]
    own = evidence.ends[name].span
    return bool(spans) and max(spans) / own > 256 / _LEAST_STEPS


def find(evidence: Evidence) -> Iterator[Finding]:
    """Count the steps that each branch is left with where it meets others."""
    small = small_branches(evidence)
    places = tuple(
        Place(
            name,
            f"its values span {evidence.ends[name].span:.4g}, {steps:.1f} steps of {out} at "
            f"{layer.name}",
            {"span": evidence.ends[name].span, "steps": steps, "meets_at": layer.name},
        )
        for name, (layer, out, steps) in small.items()
    )
    if places:
        together = tuple(dict.fromkeys(out for _, out, _ in small.values()))
        tensors = tuple(dict.fromkeys((*small, *together)))
        yield Finding(
            KIND,
            f"One scale serves branches of very different values in "
            f"{many(len(together), 'tensor')}",
            WHY,
            places,
            (
                Remedy(
                    f"leave {', '.join(together)} float, so that each branch keeps its own scale",
                    tuple(Off(name) for name in tensors),
                ),
            ),
            tensors=tensors,
        )
