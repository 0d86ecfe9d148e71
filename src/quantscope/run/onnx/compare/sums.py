"""Write the sums of one paired activation as nodes of the comparison's graph."""

from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto

from quantscope.arithmetic import QuantParams
from quantscope.model import QuantTensor
from quantscope.model.onnx import MOVES_INTEGERS
from quantscope.model.pairing import TensorPair
from quantscope.run.compare import (
    CLIP_TOLERANCE,
    SEVERAL_SCALES,
    ErrorSources,
    Layout,
    NoSourcesError,
    Pieces,
    clipped_sums,
    ends_of,
    find_pieces,
    layout_of,
    nothing_is_below,
    region_before,
    source_sums,
)
from quantscope.run.onnx.compare.merge import FLOAT, QUANTIZED
from quantscope.run.onnx.compare.sources import add_pieces

if TYPE_CHECKING:
    from quantscope.run.onnx.compare.graph import Builder


class ProbeWriter:
    """The `Reducer` of ONNX: a value is a name in the graph, laid out as the tensor itself is."""

    def __init__(
        self, builder: "Builder", pair: TensorPair, tensor: QuantTensor, quantizer: onnx.NodeProto
    ) -> None:
        self.builder, self.canvas = builder, builder.canvas
        self.pair, self.tensor, self.quantizer = pair, tensor, quantizer
        self.params: QuantParams = tensor.params
        self.layout = layout_of(builder.network, tensor)
        self.value = builder.values[pair.name]
        self.shape = self.canvas.add("Shape", [self.value])
        self.float_value = self._turned(FLOAT + pair.float_name)
        self._samples: str | None = None
        if pair.merges_rows:
            self.layout, self._samples = Layout(over=(1,), behind=0), self._layout_of_samples()
        self.q = self.laid_out(self.value)
        self.f = self.laid_out(self.float_value)
        self.error = self.canvas.add("Sub", [self.q, self.f])
        self.low, self.high = ends_of(self.params, self.layout)
        self.beyond = (self.high - self.low) * np.float32(CLIP_TOLERANCE)
        maker = builder.floats.maker(FLOAT + pair.float_name)
        is_relu = maker is not None and maker.op_type == "Relu"
        self.never_below = nothing_is_below(self.low, is_relu=is_relu)

    def sources(self, found: Pieces[onnx.NodeProto]) -> tuple[dict[str, str], str]:
        """Add the pieces of the error; give their sums, but for clipping, and b."""
        named = add_pieces(self.canvas, found, self.quantizer.input[0])
        b = self.laid_out(named.weighted)
        sums = source_sums(
            self,
            a=b if named.inherited == named.weighted else self._float_laid_out(named.inherited),
            b=b,
            steps=[self._float_laid_out(step) for step in named.steps],
            inputs=len(found.inputs),
            stated=self._stated(),
        )
        return sums, b

    def _stated(self) -> str | None:
        """Give the value that the file states, where the integers come from kernels that ship."""
        integers = self.builder.stated.get(self.pair.name)
        if integers is None:
            return None
        return self.laid_out(self.builder.dequantize(integers, self.quantizer))

    def clipped(self, b: str | None) -> dict[str, str]:
        """How many values are beyond the range, and what cutting `b` to it does to the error.

        Most batches have none, which their least and largest values tell.
        """
        if self.low.size > 1:
            return clipped_sums(self, b)
        is_beyond = [self._any("ReduceMax", self.float_max, "Greater", self.high)]
        if not self.never_below:
            is_beyond.append(self._any("ReduceMin", self.float_min, "Less", self.low))
        if b is not None:
            is_beyond.append(self._any("ReduceMax", b, "Greater", self.high))
            if not (self.never_below and self.pair.through_relu):
                is_beyond.append(self._any("ReduceMin", b, "Less", self.low))
        # One by one: what is NaN before the quantizer must not hide what is not.
        condition = reduce(lambda one, other: self.canvas.add("Or", [one, other]), is_beyond)
        return self.canvas.only_if(
            condition, lambda: clipped_sums(self, b), zeros_like=self.float_max
        )

    def _any(self, farthest: str, value: str, op_type: str, end: np.ndarray) -> str:
        """Say whether the largest, or least, of all values is beyond an end."""
        found = self.canvas.reduce(farthest, value, None)
        return self.canvas.add(op_type, [found, self.canvas.constant(end.reshape(()))])

    def _turned(self, value: str) -> str:
        """Give a value of the float network with its axes in the quantized one's order."""
        order = self.pair.order
        return self.canvas.add("Transpose", [value], perm=list(order)) if order else value

    def _float_laid_out(self, value: str) -> str:
        return self.laid_out(self._turned(value))

    def laid_out(self, value: str) -> str:
        """Give a value as float32 in the layout that is summed."""
        if self.params.scale.dtype != np.float32:
            value = self.canvas.add("Cast", [value], to=TensorProto.FLOAT)
        value = self._as_quantized(value)
        if self._samples is not None:
            return self.canvas.add("Reshape", [value, self._samples])
        if not self.layout.shape:
            return value
        shape = self.canvas.constant(np.array(self.layout.shape, np.int64))
        return self.canvas.add("Reshape", [value, shape])

    def _layout_of_samples(self) -> str:
        """Give the shape [samples, rows, channels] of a value that has the first two in one."""
        assert self.tensor.shape is not None
        channels = int(np.prod([dim for dim in self.tensor.shape[1:] if isinstance(dim, int)]))
        first = self.canvas.constant(np.array([0], np.int64))
        batch = self.canvas.add("Gather", [self.canvas.add("Shape", [self.float_value]), first])
        rest = self.canvas.constant(np.array([-1, channels], np.int64))
        return self.canvas.add("Concat", [batch, rest], axis=0)

    def _as_quantized(self, value: str) -> str:
        """Give a value in the quantized one's shape, whatever its own is.

        Where it is the same, this keeps the products of a float value in rows: the optimizer would
        compute them in its blocks of channels, and move each back.
        """
        return value if value == self.value else self.canvas.add("Reshape", [value, self.shape])

    def energy(self, value: str) -> str:
        # A third of what ReduceSumSquare takes, which has no fast path.
        return self._reduce("ReduceSum", self.canvas.add("Mul", [value, value]))

    def _reduce(self, op_type: str, value: str) -> str:
        return self.canvas.reduce(op_type, value, self.layout.over)

    def dot(self, one: str, other: str) -> str:
        product = self.canvas.add("Mul", [self.canvas.add("Sub", [one, other]), self.error])
        return self._reduce("ReduceSum", product)

    def _count(self, op_type: str, than: np.ndarray | np.float32) -> str:
        constant = self.canvas.constant(np.asarray(than))
        return self._count_true(self.canvas.add(op_type, [self.f, constant]))

    def _count_true(self, value: str) -> str:
        return self._reduce("ReduceSum", self.canvas.add("Cast", [value], to=TensorProto.FLOAT))

    @cached_property
    def float_min(self) -> str:
        return self.least(self.f)

    @cached_property
    def float_max(self) -> str:
        return self.largest(self.f)

    def least(self, value: str) -> str:
        return self._reduce("ReduceMin", value)

    def largest(self, value: str) -> str:
        return self._reduce("ReduceMax", value)

    def total(self, value: str) -> str:
        return self._reduce("ReduceSum", value)

    def less_pivot(self, value: str, least: str, most: str) -> str:
        below = self.canvas.add("Relu", [self.canvas.add("Neg", [most])])
        pivot = self.canvas.add("Sub", [self.canvas.add("Relu", [least]), below])
        return self.canvas.add("Sub", [value, pivot])

    def count_not_zero(self) -> str:
        return self._count_true(self.canvas.add("Cast", [self.f], to=TensorProto.BOOL))

    def count_below(self) -> str:
        return self._count("Less", self.low - self.beyond)

    def count_above(self) -> str:
        return self._count("Greater", self.high + self.beyond)

    def clipping(self, b: str) -> str:
        ends = [self.canvas.constant(end.reshape(())) for end in (self.low, self.high)]
        return self.dot(self.canvas.add("Clip", [b, *ends]), b)

    def local_error(self) -> str:
        """The float value through this quantizer alone, less itself."""
        renamed = {self.quantizer.input[0]: self._as_quantized(self.float_value)}
        self.canvas.clone(self.quantizer, renamed)
        integers = renamed[self.quantizer.output[0]]
        ends = self.params.ends
        if ends is not None:
            kind = np.dtype(self.params.dtype)
            limits = [self.canvas.constant(np.array(end, kind)) for end in ends]
            integers = self.canvas.add("Clip", [integers, *limits])
        local = self.laid_out(self.builder.dequantize(integers, self.quantizer))
        return self.canvas.add("Sub", [local, self.f])

    def known_sources(self) -> ErrorSources | None:
        """Give sources where integers are only moved: all inherited. None where they are made."""
        own = {QUANTIZED + name for name in self.tensor.integer_names}
        own.add(self.builder.integers[self.tensor.name])
        if own & set(self.quantizer.output):
            return None
        leaves, tensors = self.builder.leaves, self.builder.tensors
        integers = self.builder.integers[self.tensor.name]
        region = region_before(self.builder.quants, integers, leaves.keys() - own)
        moved = {leaves[name].tensor for name in region.leaves if name in leaves}
        are_moves = all(node.op_type in MOVES_INTEGERS for node in region.nodes)
        if len(moved) != 1 or region.reaches_input or not are_moves:
            raise NoSourcesError("no quantizer makes it, nor are they a compared tensor's integers")
        (source,) = moved
        if tensors[source].params != self.params:
            raise NoSourcesError(f"the integers of {source} are read with another scale")
        kernel = 0.0 if self.pair.name in self.builder.stated else None
        return ErrorSources(1.0, 0.0, 0.0, 0.0, kernel, {source: 1.0})

    def pieces(self) -> Pieces[onnx.NodeProto]:
        builder = self.builder
        if self.low.ndim and self.low.size > 1:
            raise NoSourcesError(SEVERAL_SCALES)
        return find_pieces(
            builder.floats,
            builder.quants,
            tensor=self.pair.name,
            float_value=FLOAT + self.pair.float_name,
            before_quantizer=self.quantizer.input[0],
            leaves=builder.leaves,
            does_relu=self.pair.through_relu,
        )
