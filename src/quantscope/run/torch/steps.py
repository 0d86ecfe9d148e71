"""Make a schedule ready to run: look up once what does not change from batch to batch.

`schedule.py` says what the two gain.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantscope.run.compare import Detail
from quantscope.run.torch.nodes import prepare
from quantscope.run.torch.probes import Measurement, TorchProbe
from quantscope.run.torch.quantizers import ProgramQuantizer
from quantscope.run.torch.schedule import Action, Side
from quantscope.run.torch.sources import Variants

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


@dataclass
class Batch:
    """One batch on its way through both programs, and what was measured of it, by tensor."""

    variants: Variants
    detail: Detail
    values: dict[Side, dict[Any, Any]] = field(init=False)
    sums: "dict[str, dict[str, torch.Tensor]]" = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {
            "floats": self.variants.floats,
            "quantized": self.variants.quantized,
            "variants": self.variants.known,
        }

    def measure(self, probe: TorchProbe) -> None:
        measured = Measurement(probe, self.variants, self.detail)
        self.sums[probe.pair.name] = measured.sums()
        self.sizes[probe.pair.name] = measured.f.numel()


Step = Callable[[Batch], None]


def step_of(action: Action, *, model: str) -> Step:
    """Turn an action into a function that does it and then drops what it may."""
    if action.node is not None:
        do = _node(action.node, action.side, model)
    elif action.quantizer is not None:
        do = _quantizer(action.quantizer)
    else:
        probe = action.probe
        assert probe is not None

        def do(batch: Batch) -> None:
            batch.measure(probe)

    if not action.drops:
        return do

    def and_drop(batch: Batch) -> None:
        do(batch)
        for side, key in action.drops:
            batch.values[side].pop(key, None)

    return and_drop


def _node(node: "Node", side: Side, model: str) -> Step:
    name = node.name
    run = prepare(node, model=model, protect=True)

    def do(batch: Batch) -> None:
        mine = batch.values[side]
        mine[name] = run(mine.__getitem__)

    return do


def _quantizer(quantizer: ProgramQuantizer) -> Step:
    apply, reads, writes = quantizer.apply, quantizer.reads, quantizer.dequantized

    def do(batch: Batch) -> None:
        mine = batch.values["quantized"]
        value = apply(mine[reads])
        for name in writes:
            mine[name] = value

    return do
