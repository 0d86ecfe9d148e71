"""The nouns of a network: what a person sees of a model file of any format. None can change."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, dequantize
from quantscope.errors import BadModelError
from quantscope.files import as_argument
from quantscope.plain_text import many

Role = Literal["activation", "weight", "bias"]
OperandRole = Literal["activation", "weight", "bias", "setting"]
NetworkFormat = Literal[
    "float", "qdq", "qoperator", "mixed", "dynamic", "blocks", "pt2e", "torchscript"
]
AttributeValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

Array = NDArray[Any]

Dim = int | str | None
"""One dimension: a number, the name of an open one, or None where nothing is known of it."""

Shape = tuple[Dim, ...]
"""The dimensions of a tensor; an unknown number of them is None in place of a shape."""

__all__ = [
    "Edge",
    "Layer",
    "Network",
    "Operand",
    "Port",
    "QuantParams",
    "QuantTensor",
]


@dataclass(frozen=True)
class Port:
    """One input or output of a model: name, element type, shape with its open dimensions by name.

    `dtype` is `float32`, `int8` and so on, `unknown` where the file does not say; `shape` is None
    where not even the number of dimensions is known.
    """

    name: str
    dtype: str
    shape: Shape | None


@dataclass(frozen=True)
class QuantTensor:
    """One quantized tensor.

    `name` is `layer.out`, `layer.weight`, `layer.bias` or the model input's name; the names in the
    file are `float_name` (what is quantized; None if only integers are stored), `integer_names`
    and `dequantized_names`, several where the file quantizes one tensor more than once with the
    same parameters. `scale_name` and `zero_point_name` are the stored constants, None where the
    parameters follow from others (a QLinearConv's bias) or a zero-point is left out.

    `clips_negatives` says that no negative value can be represented, `folded_relu` that the
    quantizer stands for a ReLU as far as the file tells: the layer before can give negatives, and
    is of a kind behind which quantizers remove a ReLU. Only the float model knows. `follows` names
    the input that the parameters are carried over from, because the layer only moves integers (max
    pooling, reshape); None if they are the tensor's own.
    """

    name: str
    role: Role
    params: QuantParams
    shape: Shape | None
    producer: str | None
    consumers: tuple[str, ...]
    clips_negatives: bool
    folded_relu: bool
    shares_params_with: tuple[str, ...]
    float_name: str | None
    integer_names: tuple[str, ...]
    dequantized_names: tuple[str, ...]
    scale_name: str | None
    zero_point_name: str | None
    follows: str | None = None
    read_integers: Callable[[], Array] | None = field(default=None, repr=False, compare=False)

    @property
    def read_name(self) -> str:
        """The name of the integers that others read: behind the Clip that leaves bits unused."""
        return self.integer_names[0 if self.params.ends is None else -1]

    @property
    def has_data(self) -> bool:
        """Say whether the integers are in the file: weights and biases, not activations."""
        return self.read_integers is not None

    def integers(self) -> Array:
        """Read the stored integers, read-only; memory-mapped where the file allows it."""
        if self.read_integers is None:
            raise BadModelError(
                f"{self.name} has no stored integers: it is computed when the model runs"
            )
        # A view, so that the flag does not change the reader's own array.
        array = self.read_integers().view()
        array.setflags(write=False)
        return array

    def values(self) -> Array:
        """Dequantize the stored integers into a new array."""
        return dequantize(self.integers(), self.params)

    @property
    def stored_bytes(self) -> int | None:
        """The bytes of the data in its quantized type; None where a dimension is unknown."""
        return bytes_of(self.shape, self.params.type_bits)


@dataclass(frozen=True)
class Operand:
    """One thing that a layer reads or writes, quantized (`quant`) or not.

    `dtype` is the type in which it is kept, the quantized one if there is one. `source` is the
    layer that makes it, None for a model input or a constant. A `setting` is a shape, an axis and
    the like. `run_time_dtype` is the type that the layer quantizes it to on the way in, with a
    scale and a zero-point that are found when the model runs (dynamic quantization); else None.
    """

    name: str
    role: OperandRole
    dtype: str
    shape: Shape | None
    source: str | None
    quant: QuantTensor | None
    run_time_dtype: str | None = None


@dataclass(frozen=True)
class Layer:
    """One operator as a person thinks of it, quantizers taken as part of its inputs and outputs.

    `op_type` is that of the float operator: `Conv` for a QLinearConv; `file_op_type` is what the
    file has. `macs` are multiply-accumulates of convolutions and matrix products, 0 for every
    other kind, None where they cannot be counted. `weight_bytes` are the constants it reads, in
    their quantized type, without scales. `live_bytes` is the memory of all activations that exist
    while the layer runs: those that it reads and writes, and those that wait for a later layer,
    each in its quantized type, none sharing memory with another. `default_attributes` names those
    of its attributes that say nothing: their value is the operator's default.
    """

    name: str
    op_type: str
    file_op_type: str
    domain: str
    node_name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: Mapping[str, AttributeValue]
    subgraphs: tuple[str, ...]
    macs: int | None
    weight_bytes: int | None
    live_bytes: int | None
    default_attributes: frozenset[str] = frozenset()

    @property
    def telling_attributes(self) -> Mapping[str, AttributeValue]:
        """The attributes whose values are not the operator's defaults."""
        return {k: v for k, v in self.attributes.items() if k not in self.default_attributes}

    @property
    def weight(self) -> QuantTensor | None:
        return next((o.quant for o in self.inputs if o.role == "weight" and o.quant), None)

    @property
    def bias(self) -> QuantTensor | None:
        return next((o.quant for o in self.inputs if o.role == "bias" and o.quant), None)

    @property
    def activations(self) -> tuple[Operand, ...]:
        """The operands that another layer makes, or that are inputs of the model."""
        return tuple(operand for operand in self.inputs if operand.role == "activation")

    @property
    def is_quantized(self) -> bool:
        return any(
            operand.quant or operand.run_time_dtype for operand in (*self.inputs, *self.outputs)
        )


@dataclass(frozen=True)
class Edge:
    """The operand that flows from one layer (or a model input: `source` is None) to another."""

    source: str | None
    target: str
    operand: Operand


@dataclass(frozen=True)
class Network:
    """The layers in an order in which they can run, and the quantized tensors between them.

    `batch` is the number put in for a dynamic batch when MACs and bytes were counted, None if the
    model fixes its batch. `notes` are things to know that are not errors, one line each.
    """

    path: Path
    digest: str
    format: NetworkFormat
    opset: int | None
    producer: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    layers: tuple[Layer, ...]
    tensors: tuple[QuantTensor, ...]
    batch: int | None
    notes: tuple[str, ...]
    metadata: Mapping[str, str]

    @property
    def is_quantized(self) -> bool:
        return bool(self.tensors) or bool(self.run_time_activations)

    @property
    def keeps_constants(self) -> bool:
        """Say whether its file has constants under the operands' names; only ONNX does."""
        return self.opset is not None

    @property
    def run_time_activations(self) -> tuple[Operand, ...]:
        """List the activations whose parameters are found when the model runs, each once."""
        found = {
            (operand.name, operand.run_time_dtype): operand
            for layer in self.layers
            for operand in layer.inputs
            if operand.run_time_dtype is not None
        }
        return tuple(found.values())

    @property
    def run_time_note(self) -> str:
        """Say that numbers depend on the batch, which gives run-time ranges; empty without them."""
        count = len(self.run_time_activations)
        if not count:
            return ""
        return (
            f"The ranges of {many(count, 'activation')} are found anew in every batch: other "
            f"batches give other answers (evaluate --batch)"
        )

    @cached_property
    def activations_by_layer(self) -> Mapping[str, tuple[QuantTensor, ...]]:
        """The quantized tensors that each layer makes, by its name."""
        found: dict[str, list[QuantTensor]] = {}
        for tensor in self.tensors:
            if tensor.role == "activation" and tensor.producer is not None:
                found.setdefault(tensor.producer, []).append(tensor)
        return {name: tuple(tensors) for name, tensors in found.items()}

    @property
    def macs(self) -> int | None:
        return total(layer.macs for layer in self.layers)

    @property
    def peak_live_bytes(self) -> int | None:
        """The activation memory where it is largest; None if a layer's is unknown."""
        known = [layer.live_bytes for layer in self.layers if layer.live_bytes is not None]
        return max(known, default=0) if len(known) == len(self.layers) else None

    @property
    def weight_bytes(self) -> int | None:
        """The bytes of all constants, each counted once however many layers read it."""
        seen = {
            operand.quant.name if operand.quant else operand.name: operand
            for layer in self.layers
            for operand in layer.inputs
            if operand.role in ("weight", "bias")
        }
        return total(operand_bytes(operand) for operand in seen.values())

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(
            Edge(operand.source, layer.name, operand)
            for layer in self.layers
            for operand in layer.activations
        )

    def layer(self, name: str) -> Layer:
        """Find a layer by its name here, or the node's name in the file."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        for layer in self.layers:
            if layer.node_name == name:
                return layer
        raise self.missing("layer", name, [layer.name for layer in self.layers])

    def tensor(self, name: str) -> QuantTensor:
        """Find a tensor by its name here, or any of its names in the file."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        for tensor in self.tensors:
            if name in (tensor.float_name, *tensor.integer_names, *tensor.dequantized_names):
                return tensor
        raise self.missing("quantized tensor", name, [tensor.name for tensor in self.tensors])

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Give plain values for JSON; see `network_to_dict`."""
        from quantscope.model.network_json import network_to_dict

        return network_to_dict(self, full=full)

    def missing(self, kind: str, name: str, known: Sequence[str]) -> BadModelError:
        """Make the error to raise where a name is none of the network's; it says close ones."""
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"; closest: {', '.join(close)}" if close else ""
        return BadModelError(
            f"No {kind} {name!r} in {self.path.name}{hint}. "
            f"List them with: quantscope inspect {as_argument(self.path)}"
        )


def show_shape(shape: Shape | None) -> str:
    """Show a shape as in error messages: `[N, 3, 32, 32]`, `?` for a dimension without a name."""
    if shape is None:
        return "(unknown)"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def bytes_of(shape: Shape | None, bits: int) -> int | None:
    """Count the bytes of a tensor, small types packed; None where a dimension is not a number."""
    if shape is None:
        return None
    dims = [dim for dim in shape if isinstance(dim, int)]
    return -(-prod(dims) * bits // 8) if len(dims) == len(shape) else None


def operand_bytes(operand: Operand) -> int | None:
    bits = dtype_bits(operand.dtype)
    return None if bits is None else bytes_of(operand.shape, bits)


def dtype_bits(dtype: str) -> int | None:
    """Count the bits of a type by its name here; None for strings and unknown types."""
    if dtype == "bool":
        return 8
    digits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz").partition("e")[0]
    return int(digits) if digits.isdecimal() else None


def total(parts: Iterator[int | None] | Sequence[int | None]) -> int | None:
    """Add up; give None as soon as one part is unknown."""
    amounts = list(parts)
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
