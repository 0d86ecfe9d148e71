"""The ONNX implementation of the protocol that edits are made through."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx

from quantscope.edit.biases import is_derived, read_stored_bias
from quantscope.edit.clips import folded_clips
from quantscope.edit.onnx.write import write_graph
from quantscope.edit.outcome import Outcome
from quantscope.edit.subject import Clips
from quantscope.edit.wiring import QdqGraph, Wiring
from quantscope.errors import BadModelError
from quantscope.files import as_argument
from quantscope.model import PROVENANCE_KEY, Model, Network, Pairing, pair_models, read_onnx
from quantscope.model.onnx import DEFAULT_DOMAINS, OnnxModel, check_model


@dataclass(frozen=True)
class OnnxWritten:
    """An edited model; `proto` is QDQ."""

    proto: onnx.ModelProto = field(repr=False)

    def to_bytes(self) -> bytes:
        try:
            return bytes(self.proto.SerializeToString(deterministic=True))
        except ValueError:  # protobuf's limit
            raise BadModelError(
                "The edited model is larger than 2 GB and cannot be one file"
            ) from None

    def check(self, path: Path) -> None:
        check_model(path, self.proto)


class OnnxSubject:
    """An ONNX model under edits: the file's own graph, or a QOperator file's form as QDQ."""

    suffix = ".onnx"
    why_not_rescaled = ""
    packs = True

    def __init__(self, model: OnnxModel) -> None:
        if model.is_float:
            raise BadModelError(
                f"{model.name} is not quantized: it has no parameters to edit; "
                "make a quantized model of it with: "
                f"quantscope quantize {as_argument(model.path)} -o OUT.onnx"
            )
        self._model = model
        self.lifted = list(model.stated.graph.node) != list(model.proto.graph.node)
        self.graph = QdqGraph(model.stated)
        opsets = model.stated.opset_import
        self._opset = next(o.version for o in opsets if o.domain in DEFAULT_DOMAINS)

    @cached_property
    def network(self) -> Network:
        # The file's format decides how its layers are named; lifted, they keep those names.
        if not self.lifted:
            return self._model.network
        return read_onnx(replace(self._model.file, hollow=self._model.stated))

    def pair(self, original: Model) -> Pairing:
        return pair_models(original, self._model)

    def clips(self, original: Model | None, pairing: Pairing | None) -> Clips:
        if original is None or pairing is None:
            return folded_clips(self.network, pairing, None, None)
        graph = QdqGraph(original.as_onnx("edit").file.hollow)
        return folded_clips(self.network, pairing, original.network, graph)

    def write(
        self, wiring: Wiring, outcome: Outcome, clips: Clips, provenance: str | None
    ) -> OnnxWritten:
        proto = write_graph(wiring, outcome, clips, opset=self._opset)
        if provenance is not None:
            entries = proto.metadata_props
            entry = next((e for e in entries if e.key == PROVENANCE_KEY), None)
            entry = entries.add(key=PROVENANCE_KEY) if entry is None else entry
            entry.value = provenance
        return OnnxWritten(proto)

    def notes(self, wiring: Wiring, outcome: Outcome) -> Iterator[str]:
        """Tell of biases whose scale was not the product that integer kernels take it to be."""
        for bias in outcome.biases:
            site = bias.site
            scale, _ = read_stored_bias(site, wiring)
            if bias.scale is None or np.array_equal(bias.scale, scale):
                continue
            if not is_derived(site, wiring):
                yield (
                    f"The file's scale of {site.name} is not that of {site.x} times that of "
                    f"{site.w}, as integer kernels take it to be; it is now"
                )
