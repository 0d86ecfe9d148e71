"""Run a float program beside its quantized form, and measure between them.

The quantized one runs in floats where that gives the same numbers (`quantizers`). Whether it
does is checked against the programs run as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Feeds
from quantscope.model import activation_channel_axis
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.run.compare import (
    ONLY_SQNR,
    SEVERAL_SCALES,
    Detail,
    Leaf,
    NoSourcesError,
    Pieces,
    find_pieces,
)
from quantscope.run.torch.nodes import Values, float_scores, run_nodes
from quantscope.run.torch.probes import TorchProbe, stack_sums
from quantscope.run.torch.quantizers import ProgramQuantizer, quantizer_of
from quantscope.run.torch.schedule import schedule
from quantscope.run.torch.sources import NodeGraph, Variants
from quantscope.run.torch.steps import Batch, step_of
from quantscope.run.torch.writes import why_unseen

if TYPE_CHECKING:
    from torch.fx import Node

    from quantscope.run.torch.program import ProgramRunnable

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class BatchResult:
    """The sums of one batch, by tensor: their names, and `statistics` [images, sums, channels].

    `sizes` count the numbers behind them.
    """

    float_scores: Array
    quantized_scores: Array
    sums: Mapping[str, tuple[str, ...]]
    statistics: Mapping[str, Array]
    sizes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class _Side:
    """A program whose constant parts are computed already."""

    program: "ProgramRunnable"
    nodes: "dict[str, Node]" = field(repr=False)
    constants: Values = field(repr=False)

    @cached_property
    def output(self) -> str:
        return self.program.network.outputs[0].name

    @cached_property
    def graph(self) -> NodeGraph:
        program = self.program
        return NodeGraph(self.nodes, self.constants, program.inputs, program.writes.changing)

    def start(self, feeds: Feeds) -> Values:
        own = self.program.writes.touched
        fixed = {name: value for name, value in self.constants.items() if name not in own}
        return self.program.start(feeds) | fixed


def _side(program: "ProgramRunnable") -> _Side:
    """Compute all that depends on constants alone; leave the nodes that do not."""
    constants = dict(program.constants)
    left: dict[str, Node] = {}
    for node in program.nodes:
        reads = {each.name for each in node.all_input_nodes}
        # What may be written into is made anew for each batch.
        is_fixed = reads <= constants.keys() and not program.writes.touched & {node.name, *reads}
        if reads and is_fixed:
            run_nodes([node], constants, model=program.name)
        else:
            left[node.name] = node
    return _Side(program, left, constants)


class JointPrograms:
    """Both programs and the probes at their paired activations; `run` is for one batch.

    `unquantized` are paired activations that have no quantizer in this program, with the value to
    look at instead.
    """

    def __init__(
        self,
        floats: "ProgramRunnable",
        quantized: "ProgramRunnable",
        pairing: Pairing,
        *,
        detail: Detail,
        unquantized: Sequence[tuple[TensorPair, ProgramQuantizer]] = (),
    ) -> None:
        self.floats, self.quantized, self.detail = _side(floats), _side(quantized), detail
        self.pairing = pairing
        self._pairs = {p.name: p for p in pairing.pairs if p.role == "activation"}
        side, network = self.quantized, quantized.network
        outputs = [operand.name for operand in network.outputs]
        self._quantizers = {
            name: quantizer_of(network.tensor(name), side.nodes, side.constants, outputs)
            for name in self._pairs
        }
        self.probes, self.unseen = self._probes(unquantized)
        self._actions = schedule(
            self.floats.nodes,
            side.nodes,
            self.probes,
            {
                name: quantizer
                for quantizer in self._quantizers.values()
                if quantizer.is_plain
                for name in quantizer.tensor.integer_names
            },
            given={*quantized.inputs, *side.constants},
            keep={("floats", self.floats.output), ("quantized", side.output)},
        )
        models = {"floats": floats.name, "quantized": quantized.name, "variants": floats.name}
        self._steps = [step_of(action, model=models[action.side]) for action in self._actions]
        # Quicker, each writer is given a copy, which nobody reads under another name.
        self._as_stated = bool(floats.writes.changing or quantized.writes.changing)

    @cached_property
    def by_name(self) -> dict[str, TorchProbe]:
        return {probe.pair.name: probe for probe in self.probes}

    def _probes(
        self, unquantized: Sequence[tuple[TensorPair, ProgramQuantizer]]
    ) -> tuple[list[TorchProbe], dict[str, str]]:
        """Make a probe for each activation; give the others with the reason."""
        quantized = [(pair, self._quantizers[name]) for name, pair in self._pairs.items()]
        reasons = {p.name: self._unseen(p, q) for p, q in (*quantized, *unquantized)}
        unseen = {name: why for name, why in reasons.items() if why is not None}
        leaves: dict[str, Leaf] = {}
        for pair, quantizer in quantized:
            if pair.name not in unseen:
                value, *others = quantizer.dequantized
                leaf = Leaf(pair.name, value, pair.float_name, pair.reshaped)
                leaves |= dict.fromkeys((value, *others, *quantizer.tensor.integer_names), leaf)
        probes = [self._probe(*each, leaves) for each in quantized if each[0].name not in unseen]
        probes += [self._probe(*each, {}) for each in unquantized if each[0].name not in unseen]
        return probes, unseen

    def _unseen(self, pair: TensorPair, quantizer: ProgramQuantizer) -> str | None:
        if not quantizer.dequantized:
            return "nothing in the program dequantizes it"
        if pair.order:
            return "its axes are in another order than the float program's"
        given = quantizer.dequantized[0] if quantizer.node is None else quantizer.reads
        for side, value in ((self.floats, pair.float_name), (self.quantized, given)):
            if value in side.program.writes.changing:
                return why_unseen(side.program.name)
        return None

    def _probe(
        self, pair: TensorPair, quantizer: ProgramQuantizer, leaves: Mapping[str, Leaf]
    ) -> TorchProbe:
        found: Pieces[Node] | None = None
        no_sources: str | None = ONLY_SQNR
        if self.detail == "full":
            try:
                found, no_sources = self._pieces(pair, quantizer, leaves), None
            except NoSourcesError as error:
                no_sources = str(error)
        maker = self.floats.nodes.get(pair.float_name)
        return TorchProbe(
            pair=pair,
            quantizer=quantizer,
            axis=activation_channel_axis(self.quantized.program.network, quantizer.tensor),
            is_relu=maker is not None and self.floats.graph.is_clip(maker) and "relu" in maker.name,
            pieces=found,
            no_sources=no_sources,
        )

    def _pieces(
        self, pair: TensorPair, quantizer: ProgramQuantizer, leaves: Mapping[str, Leaf]
    ) -> "Pieces[Node]":
        if quantizer.dequantized[0] in self.quantized.constants:
            raise NoSourcesError("it is computed from constants alone")
        if quantizer.reads is None:
            raise NoSourcesError("its layer only moves integers about")
        if not quantizer.tensor.params.is_per_tensor:
            raise NoSourcesError(SEVERAL_SCALES)
        return find_pieces(
            self.floats.graph,
            self.quantized.graph,
            tensor=pair.name,
            float_value=pair.float_name,
            before_quantizer=quantizer.reads,
            leaves=leaves,
            does_relu=pair.through_relu,
        )

    def check(self, feeds: Feeds) -> None:
        """Run as the files state it from now on if the quicker way gives other scores."""
        found = self.run(feeds)
        for side, scores in (
            (self.floats, found.float_scores),
            (self.quantized, found.quantized_scores),
        ):
            plain = side.program.scores(feeds)
            if not np.array_equal(plain, scores, equal_nan=True):
                self._as_stated = True

    def run(self, feeds: Feeds) -> BatchResult:
        """Run one batch; any number of threads may do so at a time."""
        result = self._run(feeds, as_stated=self._as_stated)
        finite = all(np.isfinite(found).all() for found in result.statistics.values())
        # In floats a NaN would stay one; as an integer it is some number.
        return result if finite or self._as_stated else self._run(feeds, as_stated=True)

    def _run(self, feeds: Feeds, *, as_stated: bool) -> BatchResult:
        import torch

        floats, quantized = self.floats.start(feeds), self.quantized.start(feeds)
        variants = Variants(floats, quantized, self.floats.program.name)
        result = Batch(variants, self.detail)
        with torch.inference_mode():
            if as_stated:
                _run_as_stated(self.floats, floats)
                _run_as_stated(self.quantized, quantized)
                for probe in self.probes:
                    result.measure(probe)
            else:
                for step in self._steps:
                    step(result)
            return BatchResult(
                float_scores=float_scores(floats[self.floats.output], self.floats.program.name),
                quantized_scores=float_scores(
                    quantized[self.quantized.output], self.quantized.program.name
                ),
                sums={name: tuple(found) for name, found in result.sums.items()},
                statistics=stack_sums(result.sums),
                sizes=result.sizes,
            )


def _run_as_stated(side: _Side, values: Values) -> None:
    """Run all nodes; leave each value as it was made, whatever is written into it later."""
    touched = side.program.writes.touched
    made = {name: _copied(values[name]) for name in values.keys() & touched}

    def keep(name: str, value: Any) -> None:
        if name in touched:
            made[name] = _copied(value)

    run_nodes(list(side.nodes.values()), values, model=side.program.name, watch=keep)
    output = values[side.output]
    values |= made
    values[side.output] = output


def _copied(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    return value.clone() if hasattr(value, "clone") else value
