"""Find which layers of a quantized network can be switched off, by trying."""

from dataclasses import dataclass

from quantscope.edit import TAKEN_AS_FLOAT, Editor, Off, parts_of
from quantscope.errors import BadModelError
from quantscope.progress import Progress
from quantscope.study.sensitivity.results import INPUT_TYPE, NotSwitched

# Of a ReLU that the quantizer did: nothing that a reader must know. Of float values that are not
# known: one line for all layers says it, not one a layer.
_NOT_TOLD = ("is put back", TAKEN_AS_FLOAT)


@dataclass(frozen=True)
class Targets:
    """The layers and inputs to switch, by name and operator; and those that cannot be."""

    found: tuple[tuple[str, str], ...]
    skipped: tuple[NotSwitched, ...]
    notes: tuple[str, ...]


def find_targets(editor: Editor, progress: Progress) -> Targets:
    """Find what can be switched off, by trying; tensors that go together are one target."""
    network = editor.network
    inputs = [t for t in network.tensors if t.role == "activation" and t.producer is None]
    candidates = [(tensor.name, INPUT_TYPE, {tensor.name}) for tensor in inputs]
    for layer in network.layers:
        own = {tensor.name for tensor in parts_of(network, layer)}
        candidates.append((layer.name, layer.op_type, own))
    found: list[tuple[str, str]] = []
    skipped: list[NotSwitched] = []
    notes: dict[str, None] = {}
    taken: set[str] = set()
    for place, (name, op_type, own) in enumerate(candidates):
        progress("Finding quantizers", place + 1, len(candidates))
        if own <= taken:
            continue  # it has none, or they move numbers that were quantized before
        try:
            preview = editor.preview([Off(name)])
        except BadModelError as error:
            skipped.append(NotSwitched(name, str(error)))
            continue
        taken |= {change.tensor for change in preview.changes}
        found.append((name, op_type))
        notes |= dict.fromkeys(n for n in preview.notes if not n.endswith(_NOT_TOLD))
    if not found:
        why = next((f": {each.reason}" for each in skipped), "")
        raise BadModelError(f"No layer of {editor.model.name} can be switched{why}")
    return Targets(tuple(found), tuple(skipped), (*notes, *editor.float_notes()))
