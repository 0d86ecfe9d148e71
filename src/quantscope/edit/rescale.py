"""This module finds layers that follow one another with nothing between but what commutes with a
positive factor, and rescales the channels between them.

What f(s x) = s f(x) holds for lets a channel be divided by s in the layer before and multiplied
with s in the one behind, and the float function stays (Nagel et al. 2019, section 4.1).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.edit.clips import FoldedClip
from quantscope.edit.wiring import Wiring
from quantscope.errors import BadModelError
from quantscope.model import Layer, Network, QuantTensor

Array = NDArray[Any]

_PRODUCTS = frozenset({"Gemm", "MatMul"})
_RESCALED = _PRODUCTS | {"Conv"}
_SCALES_ALONG = frozenset({"Relu", "LeakyRelu", "PRelu", "Identity", "Dropout"})
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
_FLATTENS = frozenset({"Flatten", "Reshape", "Squeeze"})
_MATRIX, _CONVOLVED = 2, 3
"""The axes of a matrix, and the fewest that a convolution's output has."""


FindNeighbours = Callable[[str, str], "Neighbours"]
"""It gives two layers by their names; raises one line where they cannot be rescaled."""


@dataclass(frozen=True)
class Neighbours:
    """Two layers whose channels between them can be rescaled.

    `between` are the quantized tensors that the factors divide, all by the same channels. `bias`
    is the first layer's, None where it has none.
    """

    first: Layer
    second: Layer
    weight: QuantTensor
    bias: str | None
    second_weight: QuantTensor
    between: tuple[str, ...]
    channels: int

    @property
    def names(self) -> tuple[str, str]:
        return self.first.name, self.second.name

    def over_outputs(self, factors: Array) -> Array:
        """Lay a number for each channel along the outputs of the first layer's weights."""
        rank = len(self.weight.shape or ())
        axis = 0 if self.first.op_type == "Conv" or _is_transposed(self.first) else rank - 1
        shape = [1] * rank
        shape[axis] = self.channels
        return factors.reshape(shape)

    def over_inputs(self, factors: Array) -> Array:
        """Lay a number for each channel along the inputs of the second layer's weights."""
        shape = _shape(self.second_weight)
        if self.second.op_type != "Conv":
            return factors.reshape((1, -1) if _is_transposed(self.second) else (-1, 1))
        groups = self.channels // shape[1]
        rows = np.repeat(factors.reshape(groups, shape[1]), shape[0] // groups, axis=0)
        return np.asarray(rows.reshape(shape[0], shape[1], *[1] * (len(shape) - 2)))

    def largest_of_outputs(self, weight: Array) -> Array:
        """Find the largest magnitude of the first layer's weights in each channel."""
        return self._largest(weight, self.over_outputs(np.arange(self.channels)))

    def largest_of_inputs(self, weight: Array) -> Array:
        """Find the largest magnitude of the second layer's weights in each channel."""
        return self._largest(weight, self.over_inputs(np.arange(self.channels)))

    def _largest(self, weight: Array, channels: Array) -> Array:
        found = np.zeros(self.channels)
        places = np.broadcast_to(channels, weight.shape).ravel()
        np.maximum.at(found, places, np.abs(weight).ravel())
        return found


def find_neighbours(
    network: Network, wiring: Wiring, clips: Mapping[str, tuple[FoldedClip, ...]]
) -> tuple[tuple[Neighbours, ...], Mapping[str, str]]:
    """Find all such layers, and why each other layer with weights is the first of none."""
    found: list[Neighbours] = []
    reasons: dict[str, str] = {}
    for layer in network.layers:
        if layer.weight is None or layer.op_type not in _RESCALED | {"ConvTranspose"}:
            continue
        try:
            found.append(_follow(network, wiring, clips, layer))
        except BadModelError as error:
            reasons[layer.name] = str(error)
    return tuple(found), reasons


def _follow(
    network: Network,
    wiring: Wiring,
    clips: Mapping[str, tuple[FoldedClip, ...]],
    first: Layer,
) -> Neighbours:
    """Follow what a layer gives to the next one; raise half a line where that is not possible."""
    weight, bias = _own_weight(wiring, first), _own_bias(wiring, first)
    channels = _shape(weight)[0 if first.op_type == "Conv" or _is_transposed(first) else -1]
    between: list[str] = []
    is_flat, layer = first.op_type != "Conv", first
    while True:
        _check_quantizers(wiring, clips, layer, between)
        following = _only_reader(network, layer)
        if following.op_type in _RESCALED and following.weight is not None:
            break
        is_flat = _passes(layer, following, is_flat=is_flat)
        layer = following
    second_weight = _own_weight(wiring, following)
    if is_flat != (following.op_type != "Conv") or following.attributes.get("transA", 0):
        raise BadModelError(f"{following.name} has its channels along another axis")
    if _input_count(following, second_weight) != channels:
        raise BadModelError(f"{following.name} does not have one input for each of its channels")
    mates = {mate for name in between for mate in wiring.scale_mates[name]} - set(between)
    if mates:
        raise BadModelError(f"{min(mates)} has its scale in common with what it gives")
    return Neighbours(first, following, weight, bias, second_weight, tuple(between), channels)


def _only_reader(network: Network, layer: Layer) -> Layer:
    """Find the layer that alone reads what another gives."""
    made = {operand.name for operand in layer.outputs}
    if any(operand.source == layer.name or operand.name in made for operand in network.outputs):
        raise BadModelError("the model gives its output")
    if any(each.subgraphs for each in network.layers):
        raise BadModelError("a subgraph may read what it gives")
    readers = [e for e in network.layers for o in e.activations if o.source == layer.name]
    if len(readers) != 1:
        raise BadModelError(f"{len(readers)} layers read what {layer.name} gives")
    return readers[0]


def _passes(layer: Layer, following: Layer, *, is_flat: bool) -> bool:
    """Say whether the channels come last behind a layer; raise if it does not pass factors on."""
    kind = following.op_type
    if kind in _FLATTENS and not is_flat:
        shape = layer.outputs[0].shape
        if shape is None or len(shape) < _CONVOLVED or any(dim != 1 for dim in shape[2:]):
            raise BadModelError(f"{following.name} mixes its channels with places")
        return True
    if kind not in _SCALES_ALONG and (kind not in _POOLS or is_flat):
        raise BadModelError(f"{following.name} reads what it gives, and {kind} is not rescaled")
    return is_flat


def _input_count(layer: Layer, weight: QuantTensor) -> int:
    shape = _shape(weight)
    if layer.op_type != "Conv":
        return shape[1 if _is_transposed(layer) else 0]
    found = layer.attributes.get("group", 1)
    return shape[1] * (found if isinstance(found, int) else 1)


def _check_quantizers(
    wiring: Wiring,
    clips: Mapping[str, tuple[FoldedClip, ...]],
    layer: Layer,
    between: list[str],
) -> None:
    """Note the quantized tensors that a layer makes; refuse one that does the work of a Clip."""
    for tensor in wiring.tensors.values():
        if tensor.producer != layer.name or tensor.role != "activation":
            continue
        for clip in clips.get(tensor.name, ()):
            if clip.op_type != "Relu" and (clip.lo != 0 or np.isfinite(clip.hi)):
                raise BadModelError(f"its quantizer does the work of a {clip.text}")
        if tensor.params.scale.size != 1:
            raise BadModelError(f"{tensor.name} has several scales")
        between.append(tensor.name)


def _own_weight(wiring: Wiring, layer: Layer) -> QuantTensor:
    weight = layer.weight
    if layer.op_type not in _RESCALED:
        raise BadModelError(f"a {layer.op_type} is not rescaled")
    if weight is None or not weight.has_data or layer.inputs[1].quant is not weight:
        raise BadModelError(f"the weights of {layer.name} are no stored second input")
    if len(weight.consumers) > 1 or wiring.scale_mates[weight.name]:
        raise BadModelError(f"{weight.name} is shared with other layers")
    if weight.params.block_size:
        raise BadModelError(f"{weight.name} has a scale for each block")
    if layer.op_type != "Conv" and len(_shape(weight)) != _MATRIX:
        raise BadModelError(f"{weight.name} is no matrix")
    return weight


def _own_bias(wiring: Wiring, layer: Layer) -> str | None:
    """Name the bias; raise for one that cannot be rescaled with the weights."""
    if not any(operand.role == "bias" for operand in layer.inputs):
        return None
    sites = [site for site in wiring.bias_sites if site.layer == layer.name]
    if len(sites) != 1:
        raise BadModelError("its bias does not count in its scales")
    if len([site for site in wiring.bias_sites if site.name == sites[0].name]) > 1:
        raise BadModelError("its bias is that of other layers too")
    return sites[0].name


def _is_transposed(layer: Layer) -> bool:
    return bool(layer.attributes.get("transB", 0))


def _shape(tensor: QuantTensor) -> tuple[int, ...]:
    return tuple(int(dim) for dim in tensor.shape or () if isinstance(dim, int))


def factors_of(pairs: Sequence[tuple[Neighbours, Array]]) -> dict[str, Array]:
    """Give what each constant's float values are multiplied with, as arrays of its rank."""
    found: dict[str, Array] = {}

    def times(name: str, factor: Array) -> None:
        found[name] = found[name] * factor if name in found else factor

    for pair, factors in pairs:
        times(pair.weight.name, pair.over_outputs(1 / factors))
        if pair.bias is not None:
            times(pair.bias, 1 / factors)
        times(pair.second_weight.name, pair.over_inputs(factors))
    return found
