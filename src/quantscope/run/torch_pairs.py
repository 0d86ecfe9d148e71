"""A float program and its quantized form, run side by side, and what is measured between them.

The quantized one runs in floats where that gives the same numbers (`torch_quantizers`). Whether it
does is checked against the programs run as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.model.channels import channel_axis
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.run.compare_graph import Detail
from quantscope.run.compare_sources import NoSourcesError
from quantscope.run.torch_probes import Scratch, TorchProbe, stacked
from quantscope.run.torch_programs import (
    Program,
    Values,
    float_scores,
    may_be_a_view,
    run_nodes,
    writes_into_its_input,
)
from quantscope.run.torch_quantizers import ProgramQuantizer, quantizer_of
from quantscope.run.torch_schedule import schedule
from quantscope.run.torch_sources import Leaf, Pieces, Regions, Variants, is_clip, pieces
from quantscope.run.torch_steps import Batch, step_of

if TYPE_CHECKING:
    from torch.fx import Node

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class BatchResult:
    """`rows` and `statistics` by tensor: names, and [images, channels, rows]."""

    float_scores: Array
    quantized_scores: Array
    rows: Mapping[str, tuple[str, ...]]
    statistics: Mapping[str, Array]
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class _Side:
    """A program whose constant parts are computed already."""

    program: Program
    nodes: "dict[str, Node]" = field(repr=False)
    constants: Values = field(repr=False)

    @cached_property
    def output(self) -> str:
        return self.program.network.outputs[0].name

    @property
    def regions(self) -> Regions:
        return Regions(self.nodes, self.constants, self.program.input)

    def start(self, images: Array) -> Values:
        return {**self.program.start(images), **self.constants}


def _side(program: Program) -> _Side:
    constants = dict(program.constants)
    left: dict[str, Node] = {}
    for node in program.nodes:
        reads = node.all_input_nodes
        if reads and all(each.name in constants for each in reads):
            run_nodes([node], constants, model=program.name, protect=True)
        else:
            left[node.name] = node
    return _Side(program, left, constants)


class PairedPrograms:
    """Both programs and the probes at their paired activations; `run` is for one batch.

    `unquantized` are paired activations that have no quantizer in this program, with the value to
    look at instead.
    """

    def __init__(
        self,
        floats: Program,
        quantized: Program,
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
        self.probes, self.unseen = self._probes()
        self.probes += [self._probe(pair, none, {}) for pair, none in unquantized]
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
            given={quantized.input, *side.constants},
            keep={("floats", self.floats.output), ("quantized", side.output)},
        )
        models = {"floats": floats.name, "quantized": quantized.name, "variants": floats.name}
        self._steps = [step_of(action, model=models[action.side]) for action in self._actions]
        nodes = *self.floats.nodes.values(), *side.nodes.values()
        self._as_stated = any(map(_is_seen_elsewhere, nodes))
        self._of_thread = local()

    def _probes(self) -> tuple[list[TorchProbe], dict[str, str]]:
        leaves: dict[str, Leaf] = {}
        for name, pair in self._pairs.items():
            tensor = self._quantizers[name].tensor
            if tensor.dequantized_names:
                leaf = Leaf(name, tensor.dequantized_names[0], pair.float_name, pair.reshaped)
                leaves |= dict.fromkeys((*tensor.dequantized_names, *tensor.integer_names), leaf)
        probes, unseen = [], {}
        for name, pair in self._pairs.items():
            quantizer = self._quantizers[name]
            if not quantizer.tensor.dequantized_names:
                unseen[name] = "nothing in the program dequantizes it"
                continue
            probes.append(self._probe(pair, quantizer, leaves))
        return probes, unseen

    def _probe(
        self, pair: TensorPair, quantizer: ProgramQuantizer, leaves: Mapping[str, Leaf]
    ) -> TorchProbe:
        found: Pieces | None = None
        no_sources: str | None = "only the SQNR was asked for"
        if self.detail == "full":
            try:
                found, no_sources = self._pieces(pair, quantizer, leaves), None
            except NoSourcesError as error:
                no_sources = str(error)
        maker = self.floats.nodes.get(pair.float_name)
        return TorchProbe(
            pair=pair,
            quantizer=quantizer,
            axis=channel_axis(self.quantized.program.network, quantizer.tensor),
            is_relu=maker is not None and is_clip(maker) and "relu" in maker.name,
            pieces=found,
            no_sources=no_sources,
        )

    def _pieces(
        self, pair: TensorPair, quantizer: ProgramQuantizer, leaves: Mapping[str, Leaf]
    ) -> Pieces:
        if quantizer.dequantized[0] in self.quantized.constants:
            raise NoSourcesError("it is computed from constants alone")
        if quantizer.reads is None:
            raise NoSourcesError("its layer only moves integers about: all its error is inherited")
        if not quantizer.tensor.params.is_per_tensor:
            raise NoSourcesError("it has more than one scale")
        return pieces(
            self.floats.regions,
            self.quantized.regions,
            float_value=pair.float_name,
            before_quantizer=quantizer.reads,
            leaves={name: leaf for name, leaf in leaves.items() if leaf.tensor != pair.name},
            does_relu=pair.through_relu,
        )

    def check(self, rows: Array) -> None:
        """Run as the files state it from now on if the quicker way gives other scores."""
        found = self.run(rows)
        for side, scores in (
            (self.floats, found.float_scores),
            (self.quantized, found.quantized_scores),
        ):
            plain = side.program.classifier.run(rows)
            if not np.array_equal(plain, scores, equal_nan=True):
                self._as_stated = True

    def run(self, rows: Array, _: int = 0) -> BatchResult:
        result = self._run(rows, as_stated=self._as_stated)
        finite = all(np.isfinite(found).all() for found in result.statistics.values())
        # In floats a NaN would stay one; as an integer it is some number.
        return result if finite or self._as_stated else self._run(rows, as_stated=True)

    def _run(self, rows: Array, *, as_stated: bool) -> BatchResult:
        import torch

        floats, quantized = self.floats.start(rows), self.quantized.start(rows)
        if not hasattr(self._of_thread, "scratch"):
            self._of_thread.scratch = Scratch()
        variants = Variants(floats, quantized, self.floats.program.name)
        result = Batch(variants, self.detail, self._of_thread.scratch)
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
                rows={name: tuple(found) for name, found in result.rows.items()},
                statistics=stacked(result.rows),
                shapes=result.shapes,
            )


def _is_seen_elsewhere(node: "Node") -> bool:
    """Whether it writes into what others read too: here it would be given a copy."""
    if not writes_into_its_input(node):
        return False
    written = node.all_input_nodes[0]
    return len(written.users) > 1 or may_be_a_view(written)


def _run_as_stated(side: _Side, values: Values) -> None:
    """Leaves each value as it was made, whatever an operator writes into it later."""
    made: Values = {}

    def keep(name: str, value: Any) -> None:
        made[name] = value.clone() if hasattr(value, "clone") else value

    keep(side.program.input, values[side.program.input])
    run_nodes(list(side.nodes.values()), values, model=side.program.name, watch=keep)
    output = values[side.output]
    values |= made
    values[side.output] = output
