"""This module finds the ReLUs and Clips that a quantizer does the work of, and puts them back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from quantscope.arithmetic import QuantParams
from quantscope.edit.wiring import QdqGraph
from quantscope.model import Layer, Network, Pairing, QuantTensor

_CLIPS = ("Relu", "Clip")
_CLIP_INPUTS_OPSET = 11  # from here on a Clip's ends are inputs


@dataclass(frozen=True)
class FoldedClip:
    """A ReLU or Clip that a quantizer replaced; the float model has it if it is `certain`.

    `lo` and `hi` are -inf and inf where it does not clip.
    """

    name: str
    op_type: str
    lo: float
    hi: float
    certain: bool = True

    @property
    def text(self) -> str:
        return "ReLU" if self.op_type == "Relu" else f"Clip to [{self.lo:g}, {self.hi:g}]"


def folded_clips(
    network: Network, pairing: Pairing | None, floats: Network | None, float_graph: QdqGraph | None
) -> dict[str, tuple[FoldedClip, ...]]:
    """Find, for each activation whose quantizer replaced some, what it replaced, in order.

    Where no float model says it, a quantizer that clips the negatives of the layer before it is
    taken to have replaced a ReLU, or a ReLU6 if its range ends at 6.
    """
    found: dict[str, tuple[FoldedClip, ...]] = {}
    pairs = {} if pairing is None else pairing.by_name
    layers: dict[str | None, str | None] = {}
    for matched in () if pairing is None else pairing.layers:
        layers.setdefault(matched.layer, matched.float_layer)
    made = {o.name: layer for layer in floats.layers for o in layer.outputs} if floats else {}
    for tensor in network.tensors:
        pair = pairs.get(tensor.name)
        if pair is None:
            if tensor.folded_relu:
                found[tensor.name] = (_likely(tensor),)
        elif pair.through_relu and pairing and floats and float_graph:
            path = _path_back(made, pair.float_name, layers.get(pair.layer))
            clips = [_clip(layer, float_graph) for layer in path if layer.op_type in _CLIPS]
            found[tensor.name] = tuple(reversed(clips))
    return found


def _likely(tensor: QuantTensor) -> FoldedClip:
    """Guess from the range alone what a quantizer that clips negatives replaced."""
    highest = float(tensor.params.representable_range[1].max())
    if abs(highest - 6) <= float(tensor.params.step.max()) / 2:
        return FoldedClip(f"{tensor.producer}.clip", "Clip", 0.0, 6.0, certain=False)
    return FoldedClip(f"{tensor.producer}.relu", "Relu", 0.0, np.inf, certain=False)


def _path_back(made: Mapping[str, Layer], value: str, start: str | None) -> Iterator[Layer]:
    """Give the layers from the one that makes `value` back to, without, the one named.

    `made` are the layers by what they make.
    """
    layer = made.get(value)
    while layer is not None and layer.name != start:
        yield layer
        layer = made.get(layer.activations[0].name) if layer.activations else None


def _clip(layer: Layer, graph: QdqGraph) -> FoldedClip:
    if layer.op_type == "Relu":
        return FoldedClip(layer.name, "Relu", 0.0, np.inf)
    node = graph.maker(layer.outputs[0].name)
    assert node is not None
    ends: list[float] = []
    for place, (name, default) in enumerate((("min", -np.inf), ("max", np.inf)), start=1):
        stored = graph.array(node.input[place]) if len(node.input) > place else None
        given: Any = layer.attributes.get(name, default)
        ends.append(float(given if stored is None else stored.reshape(())))
    return FoldedClip(layer.name, "Clip", ends[0], ends[1])


def warnings_for(
    tensor: QuantTensor, clips: tuple[FoldedClip, ...], params: QuantParams
) -> Iterator[str]:
    """Tell what these parameters let through that the file's own, doing the clips' work, do not."""
    low, high = (float(end) for end in _ends(params))
    base_low, base_high = (float(end) for end in _ends(tensor.params))
    for clip in clips:
        work = f"its quantizer does the work of a {clip.text}"
        if low < min(clip.lo, base_low):
            what = "negative values" if clip.lo == 0 else f"values below {clip.lo:g}"
            yield f"{tensor.name} would let {what} through, down to {low:.4g}: {work}"
        # Half a step, since a rounded zero-point moves the ends of a range by as much.
        if high > max(clip.hi, base_high) + float(params.step.max()) / 2:
            yield f"{tensor.name} would let values above {clip.hi:g} through: {work}"


def _ends(params: QuantParams) -> tuple[Any, Any]:
    low, high = params.representable_range
    return low.min(), high.max()


def clip_node(
    clip: FoldedClip,
    source: str,
    target: str,
    *,
    name: str,
    opset: int,
    constant: Callable[[str, float], str],
) -> onnx.NodeProto:
    """Make the ONNX node of a clip.

    `constant` stores a number under a name like the one it is given, and says which.
    """
    if clip.op_type == "Relu":
        return helper.make_node("Relu", [source], [target], name=name)
    ends = {"min": clip.lo, "max": clip.hi}
    finite = {key: end for key, end in ends.items() if np.isfinite(end)}
    if opset < _CLIP_INPUTS_OPSET:
        node = helper.make_node("Clip", [source], [target], name=name)
        node.attribute.extend(helper.make_attribute(key, end) for key, end in finite.items())
        return node
    inputs = [constant(f"{name}.{k}", end) if k in finite else "" for k, end in ends.items()]
    while inputs and not inputs[-1]:  # inputs that are left out at the end are not written
        inputs.pop()
    return helper.make_node("Clip", [source, *inputs], [target], name=name)
