"""Order the steps of two programs that run side by side, and say when each value may go.

A tensor is measured as soon as both programs have it, and dropped after its last reader, or written
over by it: what is at work stays near the cores, and memory that was just freed is used again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from quantscope.run.torch.probes import TorchProbe
from quantscope.run.torch.quantizers import ProgramQuantizer, operator_of
from quantscope.run.torch.sources import variants_of

if TYPE_CHECKING:
    from torch.fx import Node

Side = Literal["floats", "quantized", "variants"]
Key = tuple[Side, Any]
"""The key of a value: a name of one of the programs, or what `Variants` keeps it under."""

# What it gains in benchmarks/pt2e_compare.py with 1,000 images, against running one program after
# the other and then measuring: the SQNRs take 1.58 times less time, all numbers 1.23 times. Of
# that, dropping values early is 1.20 and 1.08, writing over them 1.05, of the SQNRs alone.

# Each gives new memory, never a view of what it reads.
_FRESH = frozenset(f"aten.{name}" for name in ("conv2d", "linear", "add", "relu", "pad"))


@dataclass(frozen=True)
class Action:
    """A step: a node of either program, a quantizer, or a tensor to measure."""

    side: Side
    node: "Node | None" = field(default=None, repr=False)
    quantizer: ProgramQuantizer | None = field(default=None, repr=False)
    probe: TorchProbe | None = field(default=None, repr=False)
    drops: tuple[Key, ...] = ()
    overwrites: bool = False
    """It says whether what it reads is its own: read by nobody else, and no view of another."""

    def reads(self) -> Iterator[Key]:
        if self.node is not None:
            yield from ((self.side, each.name) for each in self.node.all_input_nodes)
        if self.quantizer is not None:
            yield "quantized", self.quantizer.reads
        if self.probe is not None:
            yield from _read_by(self.probe)

    def writes(self) -> Iterator[Key]:
        if self.node is not None:
            yield self.side, self.node.name
        if self.quantizer is not None:
            yield from (("quantized", name) for name in self.quantizer.dequantized)
        if self.probe is not None and self.probe.pieces is not None:
            yield from (("variants", key) for key in variants_of(self.probe.pieces))


def _read_by(probe: TorchProbe) -> Iterator[Key]:
    yield "floats", probe.pair.float_name
    yield "quantized", probe.value
    pieces = probe.pieces
    if pieces is None:
        return
    yield "quantized", probe.quantizer.reads
    for leaf in pieces.inputs:
        yield "quantized", leaf.value
        yield "floats", leaf.float_value
    for node in pieces.layer.nodes:
        yield from (("floats", each.name) for each in node.all_input_nodes)
    yield from (("variants", key) for key in variants_of(pieces))


def schedule(
    floats: "Mapping[str, Node]",
    quantized: "Mapping[str, Node]",
    probes: Sequence[TorchProbe],
    plain: Mapping[str, ProgramQuantizer],
    *,
    given: Collection[str],
    keep: Collection[Key],
) -> tuple[Action, ...]:
    """Order all steps, each probe as soon as both programs have its value.

    `plain` are quantizers, by the node that writes their integers, that stand for their nodes.

    `given` are the quantized program's input and constants. Values in `keep` are never dropped, nor
    constants, which no action writes.
    """
    waiting = iter(floats.values())
    made: set[str] = set()
    actions: list[Action] = []

    def float_value(name: str) -> Iterator[Action]:
        while name in floats and name not in made:
            node = next(waiting)
            made.add(node.name)
            yield Action("floats", node=node)

    def measured(names: Collection[str]) -> Iterator[Action]:
        for probe in probes:
            if probe.value in names:
                yield from float_value(probe.pair.float_name)
                yield Action("variants", probe=probe)

    makers = {name: quantizer for quantizer in plain.values() for name in quantizer.dequantized}
    done: set[str] = set()
    actions += measured(given)
    for name, node in quantized.items():
        quantizer = plain.get(name)
        if quantizer is None and name not in makers:
            actions += [Action("quantized", node=node), *measured([name])]
        elif quantizer is not None and quantizer.tensor.name not in done:
            done.add(quantizer.tensor.name)
            actions.append(Action("quantized", quantizer=quantizer))
            actions += measured(quantizer.dequantized)
    actions += [Action("floats", node=node) for node in waiting]
    return tuple(_with_drops(actions, keep))


def _with_drops(actions: Sequence[Action], keep: Collection[Key]) -> Iterator[Action]:
    made = {key for action in actions for key in action.writes()}
    # By its writer too: a value that nobody reads goes at once.
    last = {
        key: at
        for at, action in enumerate(actions)
        for key in (*action.writes(), *action.reads())
        if key in made and key not in keep
    }
    dropped: dict[int, list[Key]] = {}
    for key, at in last.items():
        dropped.setdefault(at, []).append(key)
    nodes = {(a.side, a.node.name): a.node for a in actions if a.node is not None}
    for at, action in enumerate(actions):
        drops = tuple(dropped.get(at, ()))
        overwrites = any(key in drops and _is_own(nodes.get(key)) for key in _changed(action))
        yield replace(action, drops=drops, overwrites=overwrites)


def _changed(action: Action) -> Iterator[Key]:
    """Name what the action could write its result over."""
    if action.quantizer is not None:
        yield "quantized", action.quantizer.reads
    elif action.node is not None and operator_of(action.node) == "aten.relu":
        yield from action.reads()


def _is_own(node: "Node | None") -> bool:
    return node is not None and len(node.users) == 1 and operator_of(node) in _FRESH
