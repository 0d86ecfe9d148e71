"""Find the layers that an edit takes out of integer execution, or puts into it."""

from dataclasses import replace
from functools import cached_property

import onnx

from quantscope.edit import Editor
from quantscope.model import Network, read_onnx
from quantscope.model.onnx import OnnxModel
from quantscope.run.kernels import LayerKernel
from quantscope.run.onnx.kernels import map_kernels, name_by_layer
from quantscope.run.onnx.suffix.graph import ValueGraph, executed_graph
from quantscope.run.whatif.runner import KernelChange


class KernelWatch:
    """Knows how the unedited model is executed. Of a QOperator model that is the file itself."""

    def __init__(self, model: OnnxModel, editor: Editor, *, int8_kernels: bool | None) -> None:
        self._model, self._editor, self._int8_kernels = model, editor, int8_kernels

    def changes(
        self, edited: onnx.ModelProto, executed: ValueGraph | None = None
    ) -> tuple[KernelChange, ...]:
        """Give the layers that run otherwise; `executed` is the edited model's optimized graph."""
        graph = executed or self._executed(edited)
        # Same operators on the same types and shapes: no need to ask layer by layer, which is slow.
        if graph.structure == self._base_structure:
            return ()
        after = self._kernels(edited, self._edited_network)
        return tuple(
            KernelChange(name, _text(before), _text(after[name]))
            for name, before in self._base_kernels.items()
            if name in after and _text(before) != _text(after[name])
        )

    def _executed(self, proto: onnx.ModelProto) -> ValueGraph:
        return executed_graph(proto, "runtime", int8_kernels=self._int8_kernels)

    def _kernels(self, proto: onnx.ModelProto, network: Network) -> dict[str, LayerKernel]:
        named = name_by_layer(proto, network)
        layers = map_kernels(named, int8_kernels=self._int8_kernels).layers
        return {layer.name: layer for layer in layers}

    @cached_property
    def _base_structure(self) -> bytes:
        return self._executed(self._model.proto).structure

    @cached_property
    def _base_kernels(self) -> dict[str, LayerKernel]:
        return self._kernels(self._model.proto, self._model.network)

    @cached_property
    def _edited_network(self) -> Network:
        """The edited model's network: layers named as in the file, values perhaps otherwise."""
        if not self._editor.lifted:
            return self._model.network
        return read_onnx(replace(self._model.file, hollow=self._editor.base))


def _text(layer: LayerKernel) -> str:
    if layer.executed_as is None:
        return "merged into another"
    saturating = ", can saturate" if layer.saturates else ""
    return f"{layer.kernel} {layer.executed_as}{saturating}"
