"""Build the graph that compares: both networks, and statistics beside every paired activation.

Each statistic is reduced to a number for each image and channel, so no activation leaves the
runtime. What goes on from there is summed in float64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from quantscope.model import Network, QuantTensor, activation_channel_axis
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.run.compare import (
    ONLY_SQNR,
    Detail,
    ErrorSources,
    Leaf,
    NoSourcesError,
    Probe,
    ProbeSums,
    energy_sums,
    value_sums,
)
from quantscope.run.onnx.compare.merge import FLOAT, QUANTIZED, Canvas
from quantscope.run.onnx.compare.sources import Half
from quantscope.run.onnx.compare.sums import ProbeWriter
from quantscope.run.onnx.narrow import behind_clips

Array = NDArray[Any]

_AXIS = ("axis", "block_size")


@dataclass(frozen=True)
class GraphProbe(Probe):
    """A probe whose sums are an output of the graph, [samples, sums, channels], perhaps flat.

    `size_output` counts the numbers behind it, None where only the SQNR is asked for.
    """

    output: str = field(kw_only=True)
    size_output: str | None = field(default=None, kw_only=True)

    def sums(self, values: Mapping[str, Array]) -> ProbeSums:
        """Take its sums from what the graph gave for a batch."""
        numbers = None if self.size_output is None else int(values[self.size_output])
        return ProbeSums(self, values[self.output], numbers)


@dataclass(frozen=True)
class ComparisonGraph:
    """A graph of both networks with its probes.

    `inputs` leads from the quantized model's inputs to the graph's; `outputs` names its values of
    the quantized model's outputs, `float_outputs` those of the float one that they stand for. `fed`
    are the integer tensors, by name here and in the graph, that somebody else computes.
    `unseen` are paired activations without a probe, and why.
    """

    model: onnx.ModelProto
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    float_outputs: Mapping[str, str]
    probes: tuple[GraphProbe, ...]
    unseen: Mapping[str, str]
    fed: Mapping[str, str]

    @property
    def float_scores(self) -> str:
        """The float network's value of the first output."""
        return next(iter(self.float_outputs.values()))


def build_graph(
    float_model: onnx.ModelProto,
    quantized_model: onnx.ModelProto,
    network: Network,
    pairing: Pairing,
    *,
    detail: Detail = "full",
    fed: Sequence[str] | None = None,
) -> ComparisonGraph:
    """Build the comparison of a float and a quantized model.

    `fed` are tensors whose integers are given from outside, as the kernels that ship made them.

    Only those are looked at then; None means all, computed by the file's own arithmetic.
    """
    canvas = Canvas(float_model, quantized_model, dict(pairing.inputs))
    builder = Builder(canvas, network, pairing, detail, fed)
    probes, unseen = builder.probes()
    outputs = {name: QUANTIZED + name for name, _ in pairing.outputs}
    float_outputs = {name: FLOAT + theirs for name, theirs in pairing.outputs}
    for name in (*float_outputs.values(), *outputs.values()):
        canvas.output(name, None)
    return ComparisonGraph(
        canvas.model,
        canvas.inputs,
        outputs,
        float_outputs,
        tuple(probes),
        unseen,
        builder.fed_names,
    )


class Builder:
    """Adds the probes of all paired activations to a canvas that holds both networks."""

    def __init__(
        self,
        canvas: Canvas,
        network: Network,
        pairing: Pairing,
        detail: Detail,
        fed: Sequence[str] | None,
    ) -> None:
        self.canvas, self.network, self.pairing, self.detail = canvas, network, pairing, detail
        self.pairs = {p.name: p for p in pairing.pairs if p.role == "activation"}
        if fed is not None:
            self.pairs = {name: p for name, p in self.pairs.items() if name in fed}
        self.tensors = {tensor.name: tensor for tensor in network.tensors}
        self.quantizers: dict[str, onnx.NodeProto] = {
            name: node
            for node in canvas.quantized_nodes
            if node.op_type == "QuantizeLinear"
            for name in node.output
        }
        self.dequantized: dict[str, str] = {
            node.input[0]: node.output[0]
            for node in canvas.quantized_nodes
            if node.op_type == "DequantizeLinear"
        }
        clipped = behind_clips(canvas.quantized_nodes)
        self.integers: dict[str, str] = {}
        """The integers of each activation that others read, by its name."""
        for name, tensor in self.tensors.items():
            made = QUANTIZED + tensor.integer_names[0]
            self.integers[name] = clipped.get(made, made)
        self.stated: dict[str, str] = {}
        self.fed_names = self._feed() if fed is not None else {}
        self.values = {name: self._dequantized(self.tensors[name]) for name in self.pairs}
        self.floats = Half(canvas.float_nodes, canvas.float_inputs)
        self.quants = Half(canvas.quantized_nodes, tuple(canvas.inputs.values()))
        self.leaves = self._leaves()

    def _feed(self) -> dict[str, str]:
        """Turn integers that the graph would compute into inputs; `stated` is what it computes."""
        graph = self.canvas.model.graph
        fed: dict[str, str] = {}
        for name in self.pairs:
            integers = self.integers[name]
            maker = next(node for node in graph.node if integers in node.output)
            self.stated[name] = f"{integers}/stated"
            maker.output[list(maker.output).index(integers)] = self.stated[name]
            kind = self._integer_type(name)
            graph.input.append(onnx.helper.make_tensor_value_info(integers, kind, None))
            fed[name] = integers
            # Where the same integers are made several times, all readers get those that are fed.
            again = {QUANTIZED + other for other in self.tensors[name].integer_names[1:]}
            again -= {integers}
            for node in graph.node:
                node.input[:] = [integers if n in again else n for n in node.input]
        return fed

    def _integer_type(self, name: str) -> int:
        """Give the type of a tensor's integers in this graph, which an edit may have changed."""
        tensor = self.tensors[name]
        quantizer = self.quantizers.get(QUANTIZED + tensor.integer_names[0])
        if quantizer is not None and len(quantizer.input) > 2:
            for stored in self.canvas.model.graph.initializer:
                if stored.name == quantizer.input[2]:
                    return int(stored.data_type)
        return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.params.dtype)))

    def _leaves(self) -> dict[str, Leaf]:
        """Find where the compared tensors are read, by the names of their values in the graph."""
        found: dict[str, Leaf] = {}
        for name, pair in self.pairs.items():
            integers = {QUANTIZED + n for n in self.tensors[name].integer_names}
            integers.add(self.integers[name])
            names = [
                node.output[0]
                for node in self.canvas.quantized_nodes
                if node.op_type == "DequantizeLinear" and node.input[0] in integers
            ]
            for value in dict.fromkeys([*names, *integers]):
                theirs = FLOAT + pair.float_name
                found[value] = Leaf(name, self.values[name], theirs, pair.reshaped, pair.order)
        return found

    def probes(self) -> tuple[list[GraphProbe], dict[str, str]]:
        """Add a probe for each activation; give them in order, and the others with the reason."""
        probes, unseen = [], {}
        # onnxruntime runs what the last node needs first: back to front, each probe finds its two
        # values still near, and nothing is held for long.
        for name, pair in reversed(self.pairs.items()):
            tensor = self.tensors[name]
            quantizer = self._quantizer(tensor)
            if quantizer is None:
                unseen[name] = "no QuantizeLinear of the file makes it"
                continue
            if (
                not tensor.params.is_per_tensor
                and activation_channel_axis(self.network, tensor) is None
            ):
                unseen[name] = "its scales lie along the axis of the images"
                continue
            probes.append(self._probe(pair, tensor, quantizer))
        return probes[::-1], dict(reversed(unseen.items()))

    def _quantizer(self, tensor: QuantTensor) -> onnx.NodeProto | None:
        """Find the tensor's quantizer, or that of the tensor whose integers it only moves."""
        for name in tensor.integer_names:
            if node := self.quantizers.get(QUANTIZED + name):
                return node
        if tensor.follows:
            return self._quantizer(self.tensors[tensor.follows])
        return next(filter(None, map(self._reversed, tensor.integer_names)), None)

    def _reversed(self, integers: str) -> onnx.NodeProto | None:
        """Make the quantizer that would undo the reader of integers that a layer only moves."""
        for node in self.canvas.quantized_nodes:
            reads = node.op_type == "DequantizeLinear" and node.input[0] == QUANTIZED + integers
            if reads and len(node.input) == 3:
                made = onnx.helper.make_node(
                    "QuantizeLinear",
                    ["compare/moved", *node.input[1:]],
                    ["compare/moved/integers"],
                    domain=node.domain,
                )
                made.attribute.extend(a for a in node.attribute if a.name in _AXIS)
                return made
        return None

    def _dequantized(self, tensor: QuantTensor) -> str:
        integers = self.integers[tensor.name]
        if integers in self.dequantized:
            return self.dequantized[integers]
        quantizer = self._quantizer(tensor)
        return integers if quantizer is None else self.dequantize(integers, quantizer)

    def dequantize(self, integers: str, quantizer: onnx.NodeProto) -> str:
        kept = {a.name: onnx.helper.get_attribute_value(a) for a in quantizer.attribute}
        attributes = {name: kept[name] for name in _AXIS if name in kept}
        inputs = [integers, *quantizer.input[1:]]
        return self.canvas.add("DequantizeLinear", inputs, domain=quantizer.domain, **attributes)

    def _probe(
        self, pair: TensorPair, tensor: QuantTensor, quantizer: onnx.NodeProto
    ) -> GraphProbe:
        probe = ProbeWriter(self, pair, tensor, quantizer)
        sums = energy_sums(probe) if self.detail == "sqnr" else value_sums(probe)
        leaves: tuple[str, ...] = ()
        no_sources: str | None = ONLY_SQNR
        known: ErrorSources | None = None
        if self.detail == "full":
            b: str | None = None
            try:
                if (known := probe.known_sources()) is None:
                    found = probe.pieces()
                    of_sources, b = probe.sources(found)
                    sums |= of_sources
                    leaves = tuple(leaf.tensor for leaf in found.inputs)
                no_sources = None
            except NoSourcesError as error:
                no_sources = str(error)
            sums |= probe.clipped(b)
        output = self.canvas.add("Concat", list(sums.values()), axis=1)
        self.canvas.output(output)
        size: str | None = None
        if self.detail == "full":
            size = self.canvas.add("Size", [probe.f])
            self.canvas.output(size, TensorProto.INT64)
        return GraphProbe(
            pair, tensor, tuple(sums), leaves, no_sources, known, output=output, size_output=size
        )
