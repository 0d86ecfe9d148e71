"""The graph that compares: both networks, and beside every paired activation its statistics.

Each statistic is reduced to a number for each image and channel, so no activation leaves the
runtime. What goes on from there is summed in float64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from quantscope.arithmetic import QuantParams
from quantscope.model import Network, QuantTensor
from quantscope.model.channels import channel_axis
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.model.quantized_values import MOVES_INTEGERS
from quantscope.run.compare_layout import ends_of, layout_of
from quantscope.run.compare_merge import FLOAT, QUANTIZED, Canvas
from quantscope.run.compare_results import ErrorSources
from quantscope.run.compare_sources import Leaf, NoSourcesError, Pieces, Regions, pieces

Array = NDArray[Any]
Detail = Literal["sqnr", "full"]

CLIP_TOLERANCE = 1e-6
"""Of the range: a value at its end that only float32 puts outside is not clipped."""

_AXIS = ("axis", "block_size")


@dataclass(frozen=True)
class Probe:
    """A paired activation and what the graph gives of it.

    `output` is [images, rows, channels], perhaps flat; what each row is, `rows` says. `size_output`
    counts the numbers behind it, None where nobody asks.
    """

    pair: TensorPair
    tensor: QuantTensor
    output: str
    size_output: str | None
    rows: tuple[str, ...]
    leaves: tuple[str, ...]
    no_sources: str | None
    known_sources: ErrorSources | None = None
    """Where nothing is measured: a layer that only moves integers inherits all its error."""

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output,) if self.size_output is None else (self.output, self.size_output)

    def by_row(self, statistics: Array) -> Array:
        """`output` as [images, rows, channels]."""
        return statistics.reshape(len(statistics), len(self.rows), -1)


@dataclass(frozen=True)
class ComparisonGraph:
    """`fed` are the integer tensors, by name here and in the graph, that somebody else computes."""

    model: onnx.ModelProto
    input: str
    float_scores: str
    quantized_scores: str
    probes: tuple[Probe, ...]
    unseen: Mapping[str, str]
    fed: Mapping[str, str]


def build_graph(
    float_model: onnx.ModelProto,
    quantized_model: onnx.ModelProto,
    network: Network,
    pairing: Pairing,
    *,
    detail: Detail = "full",
    fed: Sequence[str] | None = None,
) -> ComparisonGraph:
    """`fed`: tensors whose integers are given from outside, as the kernels that ship made them.

    Only those are looked at then; None means all, computed by the file's own arithmetic.
    """
    canvas = Canvas(float_model, quantized_model)
    builder = _Builder(canvas, network, pairing, detail, fed)
    probes, unseen = builder.probes()
    scores = next(((f, q) for q, f in pairing.outputs), None)
    assert scores is not None
    names = FLOAT + scores[0], QUANTIZED + scores[1]
    for name in names:
        canvas.output(name, None)
    return ComparisonGraph(
        canvas.model, canvas.input, *names, tuple(probes), unseen, builder.fed_names
    )


class _Builder:
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
        self.stated: dict[str, str] = {}
        self.fed_names = self._feed() if fed is not None else {}
        self.values = {name: self._dequantized(self.tensors[name]) for name in self.pairs}
        self.floats = Regions(canvas.float_nodes, canvas.float_input)
        self.quants = Regions(canvas.quantized_nodes, canvas.input)
        self.leaves = self._leaves()

    def _feed(self) -> dict[str, str]:
        """Integers that the graph would compute become inputs; what it states stays beside them."""
        graph = self.canvas.model.graph
        fed: dict[str, str] = {}
        for name in self.pairs:
            integers = QUANTIZED + self.tensors[name].integer_names[0]
            maker = next(node for node in graph.node if integers in node.output)
            self.stated[name] = f"{integers}/stated"
            maker.output[list(maker.output).index(integers)] = self.stated[name]
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.tensors[name].params.dtype))
            graph.input.append(onnx.helper.make_tensor_value_info(integers, kind, None))
            fed[name] = integers
            again = {QUANTIZED + other for other in self.tensors[name].integer_names[1:]}
            for node in graph.node:
                node.input[:] = [integers if n in again else n for n in node.input]
        return fed

    def _leaves(self) -> dict[str, Leaf]:
        found: dict[str, Leaf] = {}
        for name, pair in self.pairs.items():
            integers = {QUANTIZED + n for n in self.tensors[name].integer_names}
            names = [
                node.output[0]
                for node in self.canvas.quantized_nodes
                if node.op_type == "DequantizeLinear" and node.input[0] in integers
            ]
            for value in dict.fromkeys([*names, *integers]):
                found[value] = Leaf(name, self.values[name], FLOAT + pair.float_name, pair.reshaped)
        return found

    def probes(self) -> tuple[list[Probe], dict[str, str]]:
        probes, unseen = [], {}
        # onnxruntime runs what the last node needs first: back to front, each probe finds its two
        # values still near, and nothing is held for long.
        for name, pair in reversed(self.pairs.items()):
            tensor = self.tensors[name]
            quantizer = self._quantizer(tensor)
            if quantizer is None:
                unseen[name] = "no QuantizeLinear of the file makes it"
                continue
            if not tensor.params.is_per_tensor and channel_axis(self.network, tensor) is None:
                unseen[name] = "its scales lie along the axis of the images"
                continue
            probes.append(self._probe(pair, tensor, quantizer))
        return probes[::-1], dict(reversed(unseen.items()))

    def _quantizer(self, tensor: QuantTensor) -> onnx.NodeProto | None:
        """That of the tensor, or of the one whose integers it only moves about."""
        for name in tensor.integer_names:
            if node := self.quantizers.get(QUANTIZED + name):
                return node
        if tensor.follows:
            return self._quantizer(self.tensors[tensor.follows])
        return next(filter(None, map(self._reversed, tensor.integer_names)), None)

    def _reversed(self, integers: str) -> onnx.NodeProto | None:
        """For integers that a layer only moves: the quantizer that would undo their reader."""
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
        integers = QUANTIZED + tensor.integer_names[0]
        if integers in self.dequantized:
            return self.dequantized[integers]
        quantizer = self._quantizer(tensor)
        return integers if quantizer is None else self._dequantize(integers, quantizer)

    def _dequantize(self, integers: str, quantizer: onnx.NodeProto) -> str:
        kept = {a.name: onnx.helper.get_attribute_value(a) for a in quantizer.attribute}
        attributes = {name: kept[name] for name in _AXIS if name in kept}
        inputs = [integers, *quantizer.input[1:]]
        return self.canvas.add("DequantizeLinear", inputs, domain=quantizer.domain, **attributes)

    def _probe(self, pair: TensorPair, tensor: QuantTensor, quantizer: onnx.NodeProto) -> Probe:
        probe = _ProbeWriter(self, pair, tensor, quantizer)
        rows = {"signal": probe.square(probe.f), "error": probe.square(probe.error)}
        leaves: tuple[str, ...] = ()
        no_sources: str | None = "only the SQNR was asked for"
        known: ErrorSources | None = None
        if self.detail == "full":
            rows |= probe.statistics()
            before: str | None = None
            try:
                if (known := probe.known_sources()) is None:
                    found = probe.pieces()
                    before = probe.laid_out(found.weighted)
                    rows |= probe.sources(found, before)
                    leaves = found.leaves
                no_sources = None
            except NoSourcesError as error:
                no_sources = str(error)
            rows |= probe.clipped(rows["float_min"], rows["float_max"], before)
        output = self.canvas.add("Concat", list(rows.values()), axis=1)
        self.canvas.output(output)
        size: str | None = None
        if self.detail == "full":
            size = self.canvas.add("Size", [probe.f])
            self.canvas.output(size, TensorProto.INT64)
        return Probe(pair, tensor, output, size, tuple(rows), leaves, no_sources, known)


class _ProbeWriter:
    """Every row is summed to a number for each image and channel, in the tensor's own layout."""

    def __init__(
        self, builder: _Builder, pair: TensorPair, tensor: QuantTensor, quantizer: onnx.NodeProto
    ) -> None:
        self.builder, self.canvas = builder, builder.canvas
        self.pair, self.tensor, self.quantizer = pair, tensor, quantizer
        self.params: QuantParams = tensor.params
        self.layout = layout_of(builder.network, tensor)
        self.value = builder.values[pair.name]
        self.shape = self.canvas.add("Shape", [self.value])
        self.float_value = FLOAT + pair.float_name
        self.q = self.laid_out(self.value)
        self.f = self.laid_out(self.float_value)
        self.error = self.canvas.add("Sub", [self.q, self.f])
        self.low, self.high = ends_of(self.params, self.layout)
        self.beyond = (self.high - self.low) * np.float32(CLIP_TOLERANCE)
        maker = builder.floats.maker(self.float_value)
        self.is_relu = maker is not None and maker.op_type == "Relu"

    def laid_out(self, value: str) -> str:
        if self.params.scale.dtype != np.float32:
            value = self.canvas.add("Cast", [value], to=TensorProto.FLOAT)
        value = self._as_quantized(value)
        if not self.layout.shape:
            return value
        shape = self.canvas.constant(np.array(self.layout.shape, np.int64))
        return self.canvas.add("Reshape", [value, shape])

    def _as_quantized(self, value: str) -> str:
        """In the quantized value's shape, whatever its own is.

        Where it is the same, this keeps the products of a float value in rows: the optimizer would
        compute them in its blocks of channels, and move each back.
        """
        return value if value == self.value else self.canvas.add("Reshape", [value, self.shape])

    def square(self, value: str) -> str:
        # A third of what ReduceSumSquare takes, which has no fast path.
        return self._reduce("ReduceSum", self.canvas.add("Mul", [value, value]))

    def _reduce(self, op_type: str, value: str) -> str:
        return self.canvas.reduce(op_type, value, self.layout.over)

    def _dot(self, one: str, other: str) -> str:
        product = self.canvas.add("Mul", [self.canvas.add("Sub", [one, other]), self.error])
        return self._reduce("ReduceSum", product)

    def _count(self, op_type: str, value: str, than: np.ndarray | np.float32) -> str:
        constant = self.canvas.constant(np.asarray(than))
        return self._count_true(self.canvas.add(op_type, [value, constant]))

    def _count_true(self, value: str) -> str:
        return self._reduce("ReduceSum", self.canvas.add("Cast", [value], to=TensorProto.FLOAT))

    def statistics(self) -> dict[str, str]:
        return {
            "quantized_signal": self.square(self.q),
            "float_sum": self._reduce("ReduceSum", self.f),
            "quantized_sum": self._reduce("ReduceSum", self.q),
            "float_min": self._reduce("ReduceMin", self.f),
            "float_max": self._reduce("ReduceMax", self.f),
            "quantized_min": self._reduce("ReduceMin", self.q),
            "quantized_max": self._reduce("ReduceMax", self.q),
            "local_error": self.square(self.canvas.add("Sub", [self._local(), self.f])),
            "not_zero": self._count_true(self.canvas.add("Cast", [self.f], to=TensorProto.BOOL)),
        }

    def clipped(self, least: str, largest: str, before: str | None) -> dict[str, str]:
        """How many values are beyond the range, and what cutting `before` to it does to the error.

        Most batches have none, which their least and largest values tell.
        """
        canvas = self.canvas
        never_below = self.is_relu and bool((self.low <= 0).all())

        def measured() -> dict[str, str]:
            found = {"clipped_high": self._count("Greater", self.f, self.high + self.beyond)}
            if not never_below:
                found["clipped_low"] = self._count("Less", self.f, self.low - self.beyond)
            if before is not None:
                ends = [canvas.constant(end.reshape(())) for end in (self.low, self.high)]
                found["clipping"] = self._dot(canvas.add("Clip", [before, *ends]), before)
            return found

        if self.low.size > 1:
            return measured()
        is_beyond = [self._any("ReduceMax", largest, "Greater", self.high)]
        if not never_below:
            is_beyond.append(self._any("ReduceMin", least, "Less", self.low))
        if before is not None:
            is_beyond.append(self._any("ReduceMax", before, "Greater", self.high))
            if not (never_below and self.pair.through_relu):
                is_beyond.append(self._any("ReduceMin", before, "Less", self.low))
        # One by one: what is NaN before the quantizer must not hide what is not.
        condition = reduce(lambda one, other: canvas.add("Or", [one, other]), is_beyond)
        return canvas.only_if(condition, measured, zeros_like=largest)

    def _any(self, farthest: str, value: str, op_type: str, end: np.ndarray) -> str:
        """Whether the largest, or least, of all values is beyond an end."""
        found = self.canvas.reduce(farthest, value, None)
        return self.canvas.add(op_type, [found, self.canvas.constant(end.reshape(()))])

    def _local(self) -> str:
        """The float value through this quantizer alone."""
        renamed = {self.quantizer.input[0]: self._as_quantized(self.float_value)}
        self.canvas.clone(self.quantizer, renamed)
        integers = renamed[self.quantizer.output[0]]
        return self.laid_out(self.builder._dequantize(integers, self.quantizer))

    def known_sources(self) -> ErrorSources | None:
        """None where a quantizer makes the integers; all is inherited where they are only moved."""
        own = {QUANTIZED + name for name in self.tensor.integer_names}
        if own & set(self.quantizer.output):
            return None
        leaves, tensors = self.builder.leaves, self.builder.tensors
        integers = QUANTIZED + self.tensor.integer_names[0]
        region = self.builder.quants.before(integers, leaves.keys() - own)
        moved = {leaves[name].tensor for name in region.leaves if name in leaves}
        are_moves = all(node.op_type in MOVES_INTEGERS for node in region.nodes)
        if len(moved) != 1 or region.reaches_input or not are_moves:
            raise NoSourcesError("no quantizer makes it, nor are they a compared tensor's integers")
        (source,) = moved
        if tensors[source].params != self.params:
            raise NoSourcesError(f"the integers of {source} are read with another scale")
        kernel = 0.0 if self.pair.name in self.builder.stated else None
        return ErrorSources(1.0, 0.0, 0.0, 0.0, kernel, {source: 1.0})

    def pieces(self) -> Pieces:
        builder = self.builder
        if self.low.ndim and self.low.size > 1:
            raise NoSourcesError("it has more than one scale")
        return pieces(
            self.canvas,
            builder.floats,
            builder.quants,
            float_value=self.float_value,
            before_quantizer=self.quantizer.input[0],
            leaves={v: leaf for v, leaf in builder.leaves.items() if leaf.tensor != self.pair.name},
            does_relu=self.pair.through_relu,
        )

    def sources(self, found: Pieces, b: str) -> dict[str, str]:
        """All but rounding, which is what they leave; `b` is `found.weighted`, laid out."""
        a = b if found.inherited == found.weighted else self.laid_out(found.inherited)
        rows = {"inherited": self._dot(a, self.f)}
        if a != b:
            rows["weights"] = self._dot(b, a)
        if self.pair.name in self.builder.stated:
            integers = self.builder.stated[self.pair.name]
            stated = self.laid_out(self.builder._dequantize(integers, self.quantizer))
            rows["kernel"] = self._dot(self.q, stated)
        steps = [self.laid_out(step) for step in found.steps]
        if len(steps) == 2 and len(found.leaves) == 2:
            rows["first_minus_second"] = self._dot(steps[0], steps[1])
        elif steps:
            for number, (one, other) in enumerate(zip([*steps, a], [self.f, *steps], strict=True)):
                rows[f"inherited:{number}"] = self._dot(one, other)
        return rows
