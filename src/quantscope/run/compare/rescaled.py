"""This module names the tensors of a file whose channels are in other units than the float ones."""

from quantscope.edit import Editor, recorded_rescaling
from quantscope.model import PROVENANCE_KEY, Model

RESCALED = "its channels are rescaled, so it has other units than the float network's"
FROM_RESCALED = "channels of what it is made from are rescaled"


def rescaled_tensors(model: Model, floats: Model) -> frozenset[str]:
    """Find what lies between the layers that a file says were rescaled, with their constants."""
    if not recorded_rescaling(model.metadata.get(PROVENANCE_KEY)):
        return frozenset()
    found: set[str] = set()
    for pair, _ in Editor(model, floats).rescaled_by(()):
        found.update((pair.weight.name, pair.second_weight.name, *pair.between))
        found.update(() if pair.bias is None else (pair.bias,))
    return frozenset(found)
