"""Order the steps of two programs that run side by side, and say when each value may go.

A tensor is measured as soon as both programs have it, and dropped after its last reader: what is at
work stays near the cores, and memory that was just freed is used again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from quantscope.run.torch.probes import TorchProbe
from quantscope.run.torch.quantizers import ProgramQuantizer
from quantscope.run.torch.sources import variants_of

if TYPE_CHECKING:
    from torch.fx import Node

Side = Literal["floats", "quantized", "variants"]
Key = tuple[Side, Any]
"""The key of a value: a name of one of the programs, or what `Variants` keeps it under."""

# In benchmarks/speed_paths.py, 1,000 images, both programs in turns take 1.35 times less CPU time
# for SQNRs, 1.12 times for all numbers, than one after the other. Dropping values early is 1.16
# times of it for SQNRs; for all numbers it gains no time, but keeps memory small.


@dataclass(frozen=True)
class Action:
    """A step: a node of either program, a quantizer, or a tensor to measure."""

    side: Side
    node: "Node | None" = field(default=None, repr=False)
    quantizer: ProgramQuantizer | None = field(default=None, repr=False)
    probe: TorchProbe | None = field(default=None, repr=False)
    drops: tuple[Key, ...] = ()

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
    for at, action in enumerate(actions):
        yield replace(action, drops=tuple(dropped.get(at, ())))
