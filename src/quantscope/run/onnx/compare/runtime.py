"""The integers that the kernels which ship make, where looking does not change the kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.arithmetic.affine import quantize
from quantscope.model import Network
from quantscope.run.kernels import KernelMap, changed_layers, kernel_map
from quantscope.run.onnx.capture import instrumented, output_of
from quantscope.run.onnx.layer_names import named_by_layer
from quantscope.run.onnx.sessions import session_of

Array = NDArray[Any]


class RuntimeReader:
    """`seen` are the tensors that can be read, `unseen` the others and why.

    A tensor whose real values are the model's output needs no looking into: the scores are it.
    """

    def __init__(
        self,
        proto: onnx.ModelProto,
        network: Network,
        wanted: Sequence[str],
        *,
        int8_kernels: bool | None,
    ) -> None:
        self.proto = named_by_layer(proto, network)
        self.int8_kernels = int8_kernels
        self.names = {name: network.tensor(name).integer_names[0] for name in wanted}
        self.scores = self.proto.graph.output[0].name
        self.unseen: dict[str, str] = {}
        tensors = map(network.tensor, wanted)
        self.last = next((t for t in tensors if output_of(t, [self.scores]) is not None), None)
        self.inner = self._visible([n for n in wanted if self.last is None or n != self.last.name])
        self.seen = [*self.inner, *([] if self.last is None else [self.last.name])]
        self.disturbed: str | None = None
        """Set when the scores show, while running, that looking changed something after all."""
        asked = [self.names[name] for name in self.inner]
        self.session = session_of(
            instrumented(self.proto, asked), "runtime", int8_kernels=int8_kernels, threads=1
        )
        (self.feed,) = (value.name for value in self.session.get_inputs())

    def read(self, rows: Array, shipped: Array) -> dict[str, Array]:
        """The integers of one batch; `shipped` are the scores of a session not looked into."""
        asked = [self.names[name] for name in self.inner]
        scores, *found = self.session.run([self.scores, *asked], {self.feed: rows})
        if self.disturbed is None and not np.array_equal(scores, shipped, equal_nan=True):
            self.disturbed = "looking at the inner tensors changes the model's outputs"
        integers = dict(zip(self.inner, found, strict=True))
        if self.last is not None:
            integers[self.last.name] = quantize(shipped, self.last.params)
        return integers

    def _visible(self, wanted: list[str]) -> list[str]:
        plain = kernel_map(self.proto, int8_kernels=self.int8_kernels)
        if not self._changes(plain, wanted):
            return wanted
        # Together they disturb; some may not. One after the other, so that those kept go together.
        kept: list[str] = []
        for name in wanted:
            changed = self._changes(plain, [*kept, name])
            if changed:
                layers = ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "")
                self.unseen[name] = (
                    f"cannot be seen without changing the kernels that run ({layers})"
                )
            else:
                kept.append(name)
        return kept

    def _changes(self, plain: KernelMap, names: list[str]) -> list[str]:
        """Layers that run otherwise when these are looked at."""
        file_names = [self.names[name] for name in names]
        looked_into = instrumented(self.proto, file_names)
        return changed_layers(plain, kernel_map(looked_into, int8_kernels=self.int8_kernels))
