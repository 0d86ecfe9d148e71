"""Write the sums that the comparison's graph measures of one paired activation."""

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto

from quantscope.arithmetic import QuantParams
from quantscope.model import QuantTensor
from quantscope.model.onnx import MOVES_INTEGERS
from quantscope.model.pairing import TensorPair
from quantscope.run.compare.layout import CLIP_TOLERANCE, ends_of, layout_of
from quantscope.run.compare.pair import NoSourcesError
from quantscope.run.compare.results import ErrorSources
from quantscope.run.onnx.compare.merge import FLOAT, QUANTIZED
from quantscope.run.onnx.compare.sources import Pieces, pieces

if TYPE_CHECKING:
    from quantscope.run.onnx.compare.graph import Builder


class ProbeWriter:
    """Adds nodes that sum to a number for each image and channel, in the tensor's own layout.

    `f` and `q` are the float and the quantized value, `error` is q - f, all laid out.
    """

    def __init__(
        self, builder: "Builder", pair: TensorPair, tensor: QuantTensor, quantizer: onnx.NodeProto
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
        """Give a value as float32 in the layout that is summed."""
        if self.params.scale.dtype != np.float32:
            value = self.canvas.add("Cast", [value], to=TensorProto.FLOAT)
        value = self._as_quantized(value)
        if not self.layout.shape:
            return value
        shape = self.canvas.constant(np.array(self.layout.shape, np.int64))
        return self.canvas.add("Reshape", [value, shape])

    def _as_quantized(self, value: str) -> str:
        """Give a value in the quantized one's shape, whatever its own is.

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
        """Sum (one - other) * error: what this difference adds to the error's energy."""
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
        """Count values beyond the range, and sum what cutting `before` to it does to the error.

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

        # With a range for each channel, the extremes of all do not tell.
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
        """Ask whether the largest, or least, of all values is beyond an end."""
        found = self.canvas.reduce(farthest, value, None)
        return self.canvas.add(op_type, [found, self.canvas.constant(end.reshape(()))])

    def _local(self) -> str:
        """Put the float value through this quantizer alone."""
        renamed = {self.quantizer.input[0]: self._as_quantized(self.float_value)}
        self.canvas.clone(self.quantizer, renamed)
        integers = renamed[self.quantizer.output[0]]
        return self.laid_out(self.builder.dequantize(integers, self.quantizer))

    def known_sources(self) -> ErrorSources | None:
        """Give sources where integers are only moved: all inherited. None where they are made."""
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
        """Sum all sources but rounding, which they leave; `b` is `found.weighted`, laid out."""
        a = b if found.inherited == found.weighted else self.laid_out(found.inherited)
        sums = {"inherited": self._dot(a, self.f)}
        if a != b:
            sums["weights"] = self._dot(b, a)
        if self.pair.name in self.builder.stated:
            integers = self.builder.stated[self.pair.name]
            stated = self.laid_out(self.builder.dequantize(integers, self.quantizer))
            sums["kernel"] = self._dot(self.q, stated)
        steps = [self.laid_out(step) for step in found.steps]
        if len(steps) == 2 and len(found.leaves) == 2:
            sums["first_minus_second"] = self._dot(steps[0], steps[1])
        elif steps:
            for number, (one, other) in enumerate(zip([*steps, a], [self.f, *steps], strict=True)):
                sums[f"inherited:{number}"] = self._dot(one, other)
        return sums
