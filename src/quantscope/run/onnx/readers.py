"""Read the integers of quantized activations, batch by batch, in either execution."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.arithmetic import quantize
from quantscope.data import Feeds
from quantscope.model import QuantTensor
from quantscope.model.onnx import OnnxModel
from quantscope.run.onnx.kernels import map_kernels, name_by_layer
from quantscope.run.onnx.seeing import add_outputs, changed_by_looking, output_of
from quantscope.run.onnx.sessions import open_session, run_session, session_of


def only_up_to(proto: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Copy a model to compute these values and no more: onnxruntime runs every node it has."""
    copy = add_outputs(proto, names)
    graph = copy.graph
    needed = set(names)
    outputs = [value for value in graph.output if value.name in needed]
    nodes = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= _reads(node)
            nodes.append(node)
    stored = {tensor.name for tensor in graph.initializer}
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    # Old files list their constants among the inputs too.
    inputs = [value for value in graph.input if value.name in needed or value.name not in stored]
    for field, kept in (
        (graph.node, nodes[::-1]),
        (graph.initializer, constants),
        (graph.input, inputs),
        (graph.output, outputs),
    ):
        del field[:]
        field.extend(kept)
    return copy


def _reads(node: onnx.NodeProto) -> set[str]:
    """Name a node's inputs, and what the graphs inside it take from around them."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            for each in inner.node:
                names |= _reads(each)
            names |= {output.name for output in inner.output}
    return names


Array = NDArray[Any]


class ReferenceReader:
    """Reads what the file states: all of it can be seen."""

    def __init__(self, model: OnnxModel, tensors: Sequence[QuantTensor], *, threads: int) -> None:
        self._model = model
        self._names = {tensor.name: tensor.read_name for tensor in tensors}
        inputs = {port.name for port in model.inputs}
        self._asked = [n for n in dict.fromkeys(self._names.values()) if n not in inputs]
        proto = only_up_to(model.stated, self._asked)
        self._session = session_of(proto, "reference", threads=threads) if self._asked else None

    @property
    def seen(self) -> list[str]:
        return list(self._names)

    @property
    def unseen(self) -> Mapping[str, str]:
        return {}

    def read(self, feeds: Feeds) -> dict[str, Array]:
        found: dict[str, Array] = dict(feeds)
        if self._session is not None:
            values = run_session(self._session, self._asked, feeds, self._model.name)
            found |= dict(zip(self._asked, values, strict=True))
        return {name: found[file_name] for name, file_name in self._names.items()}


class RuntimeReader:
    """Reads what the kernels that ship make, where looking does not change the kernels.

    A tensor whose real values are the model's output needs no looking into: the scores are it.
    """

    def __init__(
        self,
        model: OnnxModel,
        tensors: Sequence[QuantTensor],
        *,
        int8_kernels: bool | None,
    ) -> None:
        self.model, self.int8_kernels = model, int8_kernels
        self.proto = name_by_layer(model.proto, model.network)
        self.names = {tensor.name: tensor.read_name for tensor in tensors}
        self.outputs = [output.name for output in self.proto.graph.output]
        self.disturbed: str | None = None
        """The reason, once outputs have shown that looking changed something after all."""
        self._hidden: dict[str, str] = {}
        outputs = [(tensor, output_of(tensor, self.outputs)) for tensor in tensors]
        self.last = [(tensor, output) for tensor, output in outputs if output is not None]
        """The tensors whose real values are an output, and which."""
        last = {tensor.name for tensor, _ in self.last}
        self.inner = self._visible([name for name in self.names if name not in last])
        asked = [self.names[name] for name in self.inner]
        self._session = session_of(
            add_outputs(self.proto, asked), "runtime", int8_kernels=int8_kernels, threads=1
        )
        self._plain = open_session(model, "runtime", int8_kernels=int8_kernels, threads=1)

    @property
    def seen(self) -> list[str]:
        return [*self.inner, *(tensor.name for tensor, _ in self.last)]

    @property
    def unseen(self) -> dict[str, str]:
        changed = dict.fromkeys(self.seen, self.disturbed) if self.disturbed else {}
        return {**self._hidden, **{name: why for name, why in changed.items() if why}}

    def read(self, feeds: Feeds) -> dict[str, Array]:
        return self.read_beside(feeds)[0]

    def read_beside(self, feeds: Feeds) -> tuple[dict[str, Array], dict[str, Array]]:
        """Give the integers of one batch, and the outputs of a session that is not looked into."""
        shipped = run_session(self._plain, self.outputs, feeds, self.model.name)
        asked = [*self.outputs, *(self.names[name] for name in self.inner)]
        found = run_session(self._session, asked, feeds, self.model.name)
        # Equal kernel maps do not prove equal numbers; equal outputs are looked for as well.
        pairs = zip(found, shipped, strict=False)  # the outputs come first
        if self.disturbed is None and not all(_is_same(*pair) for pair in pairs):
            self.disturbed = "looking at the inner tensors changes the model's outputs"
        given = dict(zip(self.outputs, shipped, strict=True))
        inner = found[len(shipped) :]
        integers: dict[str, Array] = dict(zip(self.inner, inner, strict=True))
        for tensor, output in self.last:
            integers[tensor.name] = quantize(given[output], tensor.params)
        return integers, given

    def _visible(self, wanted: list[str]) -> list[str]:
        """Choose the tensors that can be outputs together without changing the kernels."""
        plain = map_kernels(self.proto, int8_kernels=self.int8_kernels)

        def changed(names: list[str]) -> str | None:
            return changed_by_looking(
                self.proto,
                plain,
                [self.names[name] for name in names],
                int8_kernels=self.int8_kernels,
            )

        if not changed(wanted):
            return wanted
        # Together they disturb; some may not. One after the other, so that those kept go together.
        kept: list[str] = []
        for name in wanted:
            layers = changed([*kept, name])
            if layers:
                self._hidden[name] = (
                    f"cannot be seen without changing the kernels that run ({layers})"
                )
            else:
                kept.append(name)
        return kept


def _is_same(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
