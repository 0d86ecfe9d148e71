"""Captured tensors as values, and the search for the tensors that names stand for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, dequantize
from quantscope.errors import BadModelError
from quantscope.model import Execution, Network, QuantTensor
from quantscope.run.kernels import KernelMap

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class CapturedTensor:
    """One tensor, images along its first axis (constants have none).

    A tensor that is not quantized has only `values`; `integers` and `params` are None.
    """

    name: str
    layer: str | None
    params: QuantParams | None
    integers: Array | None
    values: Array


@dataclass(frozen=True, eq=False)
class Capture:
    """The tensors that were asked for, by the names that `Network` gives.

    `unseen` are tensors that cannot be seen without changing what runs, and why. `outputs` are the
    model's own outputs for the same images; `left_out` says which have no axis of images, and what
    they have instead. `kernels`, by layer, is None in reference
    execution and for PyTorch files.
    """

    model: str
    digest: str
    execution: Execution
    data: str
    indices: NDArray[np.int64]
    tensors: Mapping[str, CapturedTensor]
    unseen: Mapping[str, str]
    outputs: Mapping[str, Array]
    provenance: Mapping[str, str] = field(default_factory=dict)
    kernels: KernelMap | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> CapturedTensor:
        if name in self.tensors:
            return self.tensors[name]
        if name in self.unseen:
            raise BadModelError(f"{name} of {self.model} cannot be seen: {self.unseen[name]}")
        raise BadModelError(f"{name} was not captured; ask for it: {', '.join(self.tensors)}")

    @property
    def by_layer(self) -> dict[str, list[CapturedTensor]]:
        """The tensors under the layer that makes them; inputs and constants under ""."""
        found: dict[str, list[CapturedTensor]] = {}
        for tensor in self.tensors.values():
            found.setdefault(tensor.layer or "", []).append(tensor)
        return found


@dataclass(frozen=True, eq=False)
class Seen:
    """The values that a `Runnable` shows: outputs by their names, tensors by `Wanted.name`.

    `unseen` are wanted tensors that cannot be seen without changing what runs, and why; `left_out`
    are outputs that have no axis of samples, and what they have instead.
    """

    outputs: Mapping[str, Array]
    tensors: Mapping[str, CapturedTensor]
    unseen: Mapping[str, str]
    kernels: KernelMap | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """A value to capture: `name` to a person, `file_name` in the executed graph.

    `tensor` is None where the value is not quantized.
    """

    name: str
    layer: str | None
    file_name: str
    tensor: QuantTensor | None

    @property
    def is_stored(self) -> bool:
        return self.tensor is not None and self.tensor.has_data


def find_wanted(
    network: Network, names: Sequence[str] | None, is_computed: Callable[[str], bool]
) -> dict[str, Wanted]:
    """Find what the names stand for; give it by name.

    `is_computed` tells the names of values that the file computes beside `network`'s.

    None means all quantized activations.
    """
    if names is None:
        names = [tensor.name for tensor in network.tensors if tensor.role == "activation"]
    found = (_find(network, name, is_computed) for name in names)
    return {wanted.name: wanted for wanted in found}


def stored_constants(wanted: Mapping[str, Wanted]) -> dict[str, CapturedTensor]:
    tensors = (w.tensor for w in wanted.values() if w.is_stored)
    return {
        t.name: CapturedTensor(t.name, None, t.params, t.integers(), t.values())
        for t in tensors
        if t is not None
    }


def to_captured(wanted: Wanted, values: Array) -> CapturedTensor:
    """Make a captured tensor of an array: of integers where a quantized tensor is wanted."""
    if wanted.tensor is None:
        return CapturedTensor(wanted.name, wanted.layer, None, None, values)
    params = wanted.tensor.params
    return CapturedTensor(wanted.name, wanted.layer, params, values, dequantize(values, params))


def _find(network: Network, name: str, is_computed: Callable[[str], bool]) -> Wanted:
    names = {f"{x.name}.out": x for x in network.layers} | {x.name: x for x in network.layers}
    layer = names.get(name) or next((x for x in network.layers if x.node_name == name), None)
    is_tensor = any(tensor.name == name for tensor in network.tensors)
    if layer is not None and not is_tensor and layer.outputs:
        operand = layer.outputs[0]
        if operand.quant is None:
            return Wanted(f"{layer.name}.out", layer.name, operand.name, None)
        return _of_tensor(operand.quant)
    try:
        return _of_tensor(network.tensor(name))
    except BadModelError:
        if not is_computed(name):
            known = [t.name for t in network.tensors] + [x.name for x in network.layers]
            raise network.missing("layer or quantized tensor", name, known) from None
    maker = next((x.name for x in network.layers if name in [o.name for o in x.outputs]), None)
    return Wanted(name, maker, name, None)


def _of_tensor(tensor: QuantTensor) -> Wanted:
    return Wanted(tensor.name, tensor.producer, tensor.read_name, tensor)


@dataclass
class SampleParts:
    """Arrays by name, a batch each, samples along the first axis."""

    unseen: dict[str, str] = field(default_factory=dict)
    """The arrays that have no such axis, and what they have instead."""
    whole: dict[str, list[Array]] = field(default_factory=dict)
    """The batches of those, as they are."""
    _parts: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, name: str, value: Array, rows: int, count: int) -> None:
        """Add one batch. Its last `rows - count` rows are there to fill it up, and are dropped."""
        if value.ndim == 0 or value.shape[0] != rows:
            self.whole.setdefault(name, []).append(value)
            self.unseen[name] = (
                f"its first axis does not count images: its shape is {list(value.shape)} for a "
                f"batch of {rows}, so its values cannot be told apart by image"
            )
        else:
            self._parts.setdefault(name, []).append(value[:count])

    def join(self) -> dict[str, Array]:
        """Put the batches of each array together."""
        return {
            name: np.concatenate(parts)
            for name, parts in self._parts.items()
            if name not in self.unseen
        }
