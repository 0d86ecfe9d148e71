"""This module writes other parameters, integers and quantizers into a copy of a PT2E program.

Scales and zero-points are arguments of the graph's quantizers or tensors beside the weights; a
quantizer that is switched off is taken out, and what it was given flows on.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.edit.biases import BiasOutcome
from quantscope.edit.clips import FoldedClip
from quantscope.edit.outcome import Outcome, TensorOutcome
from quantscope.edit.torch.shadow import kind_of, parameter_names
from quantscope.edit.wiring import Wiring
from quantscope.errors import BadModelError
from quantscope.model import QuantTensor
from quantscope.model.onnx import MOVES_INTEGERS
from quantscope.model.torch import DTYPES, ProgramGraph, ProgramNode, Pt2File, Ref, new_archive

Array = NDArray[Any]

_NUMBERS = {name: number for number, name in DTYPES.items()}
_PROGRAM = "models/model.json"


class ProgramWriter:
    """A copy of a file's program under change."""

    def __init__(self, file: Pt2File, graph: ProgramGraph) -> None:
        self.file, self.graph = file, graph
        self.program: dict[str, Any] = copy.deepcopy(dict(file.program))
        self.arrays: dict[str, Array] = {}
        """The tensors that are others now, by the file's names for them."""
        self._nodes = {node.name: node for node in graph.nodes}
        self._makers = {name: node for node in graph.nodes for name in node.outputs}
        self._stated: dict[str, Any] = {
            node.name: stated
            for node, stated in zip(graph.nodes, self._graph["nodes"], strict=True)
        }
        self._renamed: dict[str, str] = {}
        self._removed: set[str] = set()

    @property
    def _graph(self) -> Any:
        return self.program["graph_module"]["graph"]

    def write(
        self, wiring: Wiring, outcome: Outcome, clips: Mapping[str, tuple[FoldedClip, ...]]
    ) -> None:
        """Write an outcome into the copy."""
        for each in outcome.tensors:
            if each.params is None:
                self._switch_off(each, clips.get(each.tensor.name, ()))
            else:
                self._change(each)
        for bias in outcome.biases:
            self._change_bias(bias, wiring)
        if self._removed:
            self._take_out()

    def _quantizers(self, tensor: QuantTensor) -> Iterator[ProgramNode]:
        for name in (*tensor.integer_names, *tensor.dequantized_names):
            node = self._makers.get(name)
            if node is not None and kind_of(node) in ("QuantizeLinear", "DequantizeLinear"):
                yield node

    def _change(self, each: TensorOutcome) -> None:
        tensor, params = each.tensor, each.params
        assert params is not None
        if params.dtype != tensor.params.dtype:
            raise BadModelError(
                f"{tensor.name} cannot have {params.bits} bits: {self.file.path.name} is a "
                f"program of PyTorch, whose {tensor.params.dtype} holds 2 to "
                f"{tensor.params.type_bits}; edit its ONNX form for more"
            )
        has_other_ends = params.ends != tensor.params.ends
        if params != tensor.params:
            for node in self._quantizers(tensor):
                self._set(node, params.scale, params.zero_point)
                if has_other_ends:
                    for name, end in (("quant_min", params.qmin), ("quant_max", params.qmax)):
                        self._set_number(node, name, {"as_int": end})
        if each.integers is not None:
            name = tensor.integer_names[0]
            if name not in self.graph.constants and each.set_by_hand:
                raise BadModelError(
                    f"The integers of {tensor.name} cannot be set: {self.file.path.name} stores "
                    f"its float values and rounds them when it runs"
                )
            if name in self.graph.constants:
                stored = each.integers
                # New ends are kept by rounding; the file's own may be fewer than its type has.
                self._store(name, stored if has_other_ends else self._within_limits(tensor, stored))

    def _within_limits(self, tensor: QuantTensor, integers: Array) -> Array:
        """Clip to the integers that the quantizer uses, which may be fewer than its type has."""
        limits = self.limits(tensor)
        return integers if limits is None else np.clip(integers, *limits)

    def limits(self, tensor: QuantTensor) -> tuple[int, int] | None:
        """Find the smallest and largest integer that its quantizers use; None if they say none."""
        for node in self._quantizers(tensor):
            low, high = node.arguments.get("quant_min"), node.arguments.get("quant_max")
            if isinstance(low, int) and isinstance(high, int):
                return low, high
        return None

    def _set(self, node: ProgramNode, scale: Array, zero_point: Array) -> None:
        """Set a quantizer's parameters: stored tensors per channel, plain arguments per tensor."""
        names = parameter_names(node)
        for name, value in zip(names, (scale, zero_point), strict=True):
            given = node.arguments.get(name)
            if isinstance(given, Ref):
                self._store(str(given), np.asarray(value))
                continue
            kind, number = "as_float", float(value)
            if name == names[1]:
                kind, number = "as_int", int(value)
            self._set_number(node, name, {kind: number})

    def _set_number(self, node: ProgramNode, name: str, value: dict[str, Any]) -> None:
        for entry in self._stated[node.name]["inputs"]:
            if entry["name"] == name:
                entry["arg"] = value

    def _store(self, name: str, values: Array) -> None:
        """Store values in the type and shape that the file has for them."""
        fqn = self.graph.constants[name]
        stored = self.file.stored[fqn]
        self.arrays[fqn] = values.astype(stored.dtype).reshape(stored.shape)

    def _switch_off(self, each: TensorOutcome, clips: tuple[FoldedClip, ...]) -> None:
        """Mark a tensor's quantizers as gone, and put back the clips that they replaced."""
        tensor = each.tensor
        for node in self._quantizers(tensor):
            source = str(node.arguments["input"])
            if kind_of(node) == "QuantizeLinear":
                for clip in clips:
                    source = self._insert(clip, source, node)
            self._removed.add(node.name)
            self._renamed[node.outputs[0]] = source
        name = tensor.integer_names[0]
        if each.real is not None and name in self.graph.constants:
            self._store_real(name, each.real)

    def _store_real(self, name: str, values: Array) -> None:
        array = np.asarray(values, np.float32, order="C")
        self.arrays[self.graph.constants[name]] = array
        self._graph["tensor_values"][name] |= _meta(array)

    def _change_bias(self, bias: BiasOutcome, wiring: Wiring) -> None:
        node = self._nodes[wiring.graph.node(bias.site.dequantize).name]
        source = str(node.arguments["input"])
        if bias.scale is None:
            assert bias.real is not None
            self._removed.add(node.name)
            self._renamed[node.outputs[0]] = source
            self._store_real(source, bias.real)
            return
        zero_point = np.zeros(bias.scale.shape, np.int64)
        self._set(node, bias.scale, zero_point)
        if bias.integers is not None:
            self._store(source, bias.integers)

    def _insert(self, clip: FoldedClip, source: str, before: ProgramNode) -> str:
        """Put the operator that a quantizer replaced in front of it; give its output's name."""
        values, nodes = self._graph["tensor_values"], self._graph["nodes"]
        name = clip.name.replace(".", "_")
        while name in values:
            name += "_"
        given: list[tuple[str, Any]] = [("self", {"as_tensor": {"name": source}})]
        ends = (("min", clip.lo), ("max", clip.hi))
        if clip.op_type != "Relu":
            given += [(end, {"as_float": value}) for end, value in ends if np.isfinite(value)]
        made: dict[str, Any] = {
            "name": name,
            "target": f"torch.ops.aten.{'relu' if clip.op_type == 'Relu' else 'clamp'}.default",
            "inputs": [{"name": key, "arg": arg, "kind": 1} for key, arg in given],
            "outputs": [{"as_tensor": {"name": name}}],
            "metadata": {},
            "is_hop_single_tensor_return": None,
        }
        # A clip gives what it is given: the same shape and type.
        values[name] = copy.deepcopy(values[source])
        nodes.insert(nodes.index(self._stated[before.name]), made)
        return name

    def _take_out(self) -> None:
        """Remove the marked quantizers; whatever read one reads what the quantizer was given."""
        graph, signature = self._graph, self.program["graph_module"]["signature"]
        removed = [self._stated[name] for name in self._removed]
        graph["nodes"] = [node for node in graph["nodes"] if node not in removed]
        for name in self._renamed:
            graph["tensor_values"].pop(name, None)
        for node in graph["nodes"]:
            node["inputs"] = [{**g, "arg": self._follow(g["arg"])} for g in node["inputs"]]
        graph["outputs"] = [self._follow(value) for value in graph["outputs"]]
        signature["output_specs"] = [
            {kind: {**content, "arg": self._follow(content["arg"])}}
            for spec in signature["output_specs"]
            for kind, content in spec.items()
        ]
        self._retype()

    def _follow(self, value: Any) -> Any:
        """Let an argument, however nested, read past the quantizers that are gone."""
        if isinstance(value, list):
            return [self._follow(each) for each in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"name"} and isinstance(value["name"], str):
            name = value["name"]
            while name in self._renamed:
                name = self._renamed[name]
            return {"name": name}
        return {key: self._follow(each) for key, each in value.items()}

    def _retype(self) -> None:
        """Correct the types after operators that only move numbers, which now move floats."""
        values = self._graph["tensor_values"]
        for node in self._graph["nodes"]:
            known = self._nodes.get(node["name"])
            if known is None or kind_of(known) not in MOVES_INTEGERS:
                continue
            source = next(
                (g["arg"]["as_tensor"]["name"] for g in node["inputs"] if "as_tensor" in g["arg"]),
                None,
            )
            for output in known.outputs:
                if source in values and output in values:
                    values[output]["dtype"] = values[source]["dtype"]

    def to_bytes(self, metadata: Mapping[str, str]) -> bytes:
        """Give the archive's bytes, the same for the same program, edits and versions."""
        configs = copy.deepcopy(dict(self.file.configs))
        members: dict[str, bytes] = {
            "archive_format": b"pt2",
            "archive_version": b"0",
            ".data/version": b"6",
            "byteorder": b"little",
            _PROGRAM: json.dumps(self.program).encode(),
            "data/sample_inputs/model.pt": b"",  # never loaded, and most of a file that has them
        }
        taken = {stored.member for stored in self.file.stored.values()}
        members |= {member: self.file.archive.read(member) for member in sorted(taken)}
        for fqn, array in self.arrays.items():
            config = next(c for c in configs.values() if fqn in c["config"])
            member = _own_member(self.file, fqn, taken)
            entry = config["config"][fqn]
            entry["path_name"] = member.rpartition("/")[2]
            entry["tensor_meta"] |= _meta(array)
            members[member] = array.tobytes()
        members |= {name: json.dumps(config).encode() for name, config in configs.items()}
        members |= {f"extra/{name}": text.encode() for name, text in metadata.items()}
        return new_archive(members).getvalue()


def _own_member(file: Pt2File, fqn: str, taken: set[str]) -> str:
    """Choose the member that held a tensor, or a new one where others are stored there too."""
    member = file.stored[fqn].member
    if sum(stored.member == member for stored in file.stored.values()) == 1:
        return member
    folder, _, name = member.rpartition("/")
    kind, number = name.split("_")[0], 0
    while f"{folder}/{kind}_{number}" in taken:
        number += 1
    taken.add(f"{folder}/{kind}_{number}")
    return f"{folder}/{kind}_{number}"


def _meta(array: Array) -> dict[str, Any]:
    """Describe a tensor as the archive does; strides are in elements, not bytes."""
    strides = [step // array.itemsize for step in np.asarray(array, order="C").strides]
    return {
        "dtype": _NUMBERS[array.dtype.name],
        "sizes": [{"as_int": size} for size in array.shape],
        "strides": [{"as_int": step} for step in strides],
        "storage_offset": {"as_int": 0},
    }
