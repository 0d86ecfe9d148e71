"""Edits applied to a quantized ONNX model. The model and its file stay as they are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx

from quantscope.edit.applied import Applied, set_provenance
from quantscope.edit.biases import is_derived, stored
from quantscope.edit.changes import NOTHING_CHANGED, changes_of, clip_notes, warnings_of
from quantscope.edit.edits import Edit
from quantscope.edit.onnx.clips import FoldedClip, folded_clips
from quantscope.edit.onnx.floats import FloatValues
from quantscope.edit.onnx.lift import lift_to_qdq
from quantscope.edit.onnx.wiring import Graph, Wiring, wire
from quantscope.edit.onnx.write import written
from quantscope.edit.outcome import Outcome, resolve
from quantscope.edit.plan import make_plan
from quantscope.errors import BadModelError
from quantscope.files import as_argument
from quantscope.model import Network, OnnxFile, Pairing, load_onnx, pair, read_onnx
from quantscope.model.onnx import DEFAULT_DOMAINS
from quantscope.zoo import find_model, known_float_model

LIFTED = "The file is QOperator; it was stated as QDQ first, and edits are made there"


class Editor:
    """A quantized ONNX model opened once, with the float one it was made from, for many edit lists.

    Without `float_model` the known one is taken, if there is any; without one, integers are rounded
    from what the file's own integers stand for, and a note says so. Edits act in their order; see
    `quantscope.edit.plan` for what that means.
    """

    suffix = ".onnx"
    """Of the files that edited models become."""

    def __init__(self, model: str | Path | OnnxFile, float_model: str | Path | None = None) -> None:
        file = model if isinstance(model, OnnxFile) else load_onnx(find_model(model))
        if file.format == "float":
            raise BadModelError(
                f"{file.path.name} is not quantized: it has no parameters to edit; "
                "make a quantized model of it with: "
                f"quantscope quantize {as_argument(file.path)} -o OUT.onnx"
            )
        self.file = file
        self.network: Network = read_onnx(file)
        own = file.load_proto()
        proto = own if file.format == "qdq" else lift_to_qdq(own)
        self.lifted = list(proto.graph.node) != list(own.graph.node)
        self._opset = next(o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS)
        graph = Graph(proto)
        # The file's format decides how its layers are named; lifted, they keep those names.
        self._network = read_onnx(replace(file, hollow=proto)) if self.lifted else self.network
        self._wiring: Wiring = wire(graph, self._network)
        self.float_path = known_float_model(self.network, float_model)
        self.float_network = None if self.float_path is None else read_onnx(self.float_path)
        self.pairing: Pairing | None = self._paired(must=float_model is not None)
        self._floats = FloatValues(graph, self.pairing)

    @cached_property
    def base(self) -> onnx.ModelProto:
        """The model as QDQ, unedited."""
        return self.apply([]).proto

    @cached_property
    def clips(self) -> dict[str, tuple[FoldedClip, ...]]:
        """By tensor: the ReLUs and Clips that its quantizer does the work of."""
        floats = self.float_network if self.pairing else None
        graph = Graph(load_onnx(floats.path).hollow) if floats else None
        return folded_clips(self._network, self.pairing, floats, graph)

    def apply(self, edits: Sequence[Edit]) -> Applied:
        edits = tuple(edits)
        plan = make_plan(self._wiring, self._network, edits)
        outcome = resolve(plan, self._wiring, self._network, self._floats)
        proto = written(self._wiring, outcome, self.clips, opset=self._opset)
        if edits or self.lifted:
            set_provenance(
                proto,
                base_digest=self.file.digest,
                edits=edits,
                lifted=self.lifted,
                float_digest=self.pairing.float_digest if self.pairing else None,
            )
        changes = tuple(changes_of(plan, outcome, self._wiring))
        notes = [*([LIFTED] if self.lifted else []), *outcome.notes]
        notes += clip_notes(plan, self._wiring, self.clips)
        notes += self._bias_notes(outcome)
        if edits and not changes:
            notes.append(NOTHING_CHANGED)
        return Applied(
            proto=proto,
            base_digest=self.file.digest,
            edits=edits,
            changes=changes,
            warnings=tuple(warnings_of(outcome, self.clips)),
            notes=tuple(notes),
            lifted=self.lifted,
            sources=tuple(
                path
                for path in (self.file.path, *self.file.external_files, self.float_path)
                if path is not None
            ),
        )

    def _paired(self, *, must: bool) -> Pairing | None:
        if self.float_network is None:
            return None
        try:
            return pair(self.float_network, self.network)
        except BadModelError:
            if must:
                raise
            return None

    def _bias_notes(self, outcome: Outcome) -> Iterator[str]:
        for bias in outcome.biases:
            site = bias.site
            scale, _ = stored(site, self._wiring)
            if bias.scale is None or np.array_equal(bias.scale, scale):
                continue
            if not is_derived(site, self._wiring):
                yield (
                    f"The file's scale of {site.name} is not that of {site.x} times that of "
                    f"{site.w}, as integer kernels take it to be; it is now"
                )
