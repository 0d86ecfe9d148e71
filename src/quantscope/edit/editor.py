"""The editor applies edits to a quantized model of any kind of file. The file stays as it is."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.edit.applied import Applied, Preview, recorded_rescaling, state_edits
from quantscope.edit.changes import NOTHING_CHANGED, changes_of, clip_notes, warnings_of
from quantscope.edit.edits import Edit, ScaleChannels
from quantscope.edit.outcome import Outcome, resolve
from quantscope.edit.plan import EditPlan, is_editable, make_plan
from quantscope.edit.rescale import Neighbours, factors_of, find_neighbours
from quantscope.edit.subject import Clips, open_subject
from quantscope.edit.values import FloatValues
from quantscope.edit.widths import MANY, tensors_with_bits
from quantscope.edit.wiring import BiasSite, Wiring, wire
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import (
    PROVENANCE_KEY,
    Model,
    ModelSource,
    Network,
    Pairing,
    QuantTensor,
    find_original,
    need_original,
    open_model,
)

LIFTED = "The file is QOperator; it was stated as QDQ first, and edits are made there"


class Editor:
    """A quantized model opened once, with the float one it was made from, for many edit lists.

    Without `float_model` the known one is taken, if there is any; without one, integers are rounded
    from what the file's own integers stand for, and a note says so. Edits act in their order; see
    `quantscope.edit.plan` for what that means.
    """

    def __init__(self, model: ModelSource, float_model: ModelSource | None = None) -> None:
        self.model: Model = open_model(model)
        self._subject = open_subject(self.model)
        self.network: Network = self.model.network
        self.original: Model | None = find_original(self.model, float_model)
        self.pairing: Pairing | None = self._pair(must=float_model is not None)
        self._wiring: Wiring = wire(self._subject.graph, self._subject.network)
        self._recorded = recorded_rescaling(self.model.metadata.get(PROVENANCE_KEY))
        self._floats = self._float_values()

    @property
    def stated_network(self) -> Network:
        """The reading of the QDQ form that edits are made in; layers and tensors have their names.

        Its values are named as edited models name them, and a QOperator file's are not.
        """
        return self._subject.network

    @property
    def bias_sites(self) -> tuple[BiasSite, ...]:
        """The layers whose stored bias counts in steps of their input's and weights' scales."""
        return self._wiring.bias_sites

    def scale_mates(self, tensor: str) -> tuple[str, ...]:
        """Name the other tensors that have their scale in common with this one."""
        return self._wiring.scale_mates.get(tensor, ())

    def float_values(self, tensor: str, edits: Sequence[Edit] = ()) -> NDArray[Any]:
        """Give what a stored tensor is rounded from under edits, not to be changed.

        Where no float model says it, that is what its integers stand for.
        """
        factors = factors_of(self._pairs(edits))
        return self._floats.rescaled(self._subject.network.tensor(tensor), factors)

    @cached_property
    def neighbours(self) -> tuple[tuple[Neighbours, ...], Mapping[str, str]]:
        """The layers whose channels between them can be rescaled; why others are the first of none.

        Only where edits can do so: of ONNX files.
        """
        why = self._subject.why_not_rescaled
        if why:
            layers = (layer for layer in self.stated_network.layers if layer.weight is not None)
            return (), {layer.name: why for layer in layers}
        return find_neighbours(self._subject.network, self._wiring, self.clips)

    def rescaled_by(
        self, edits: Sequence[Edit]
    ) -> tuple[tuple[Neighbours, NDArray[np.float64]], ...]:
        """Give the layers that edits rescale the channels between, and what they divide them by.

        Those that the file says it was made by come first.
        """
        return (*self._recorded_pairs, *self._pairs(edits))

    def _pairs(self, edits: Sequence[Edit]) -> tuple[tuple[Neighbours, NDArray[np.float64]], ...]:
        found = [edit for edit in edits if isinstance(edit, ScaleChannels)]
        return tuple(
            (self._neighbours(e.first, e.second), np.asarray(e.factors, np.float64)) for e in found
        )

    @cached_property
    def _recorded_pairs(self) -> tuple[tuple[Neighbours, NDArray[np.float64]], ...]:
        try:
            pairs = self._pairs(self._recorded)
        except (BadConfigError, BadModelError):
            return ()
        return pairs if all(p.channels == factors.size for p, factors in pairs) else ()

    def _float_values(self) -> FloatValues:
        """Take float values as the file was made from them, its channels rescaled or not."""
        pairs = self._recorded_pairs
        # Of a file whose rescaled layers are not found, the float model has other values.
        pairing = self.pairing if len(pairs) == len(self._recorded) else None
        return FloatValues(self._subject.graph, pairing, factors_of(pairs))

    def _neighbours(self, first: str, second: str) -> Neighbours:
        pairs, reasons = self.neighbours
        pair = next((pair for pair in pairs if pair.names == (first, second)), None)
        if pair is not None:
            return pair
        layer = self.stated_network.layer(first)
        why = reasons.get(layer.name, f"{second} does not follow it")
        raise BadConfigError(f"The channels from {first} to {second} cannot be rescaled: {why}")

    def integers_under(self, edits: Sequence[Edit], tensor: str) -> NDArray[Any]:
        """Give a stored tensor's integers as edits leave them."""
        _, outcome = self._resolve(tuple(edits))
        for each in outcome.tensors:
            if each.tensor.name == tensor and each.integers is not None:
                return each.integers
        return self._subject.network.tensor(tensor).integers()

    @property
    def suffix(self) -> str:
        """The suffix of the files that edited models become."""
        return self._subject.suffix

    @property
    def lifted(self) -> bool:
        """Say whether the file is QOperator, and was stated as QDQ first."""
        return self._subject.lifted

    @property
    def float_path(self) -> Path | None:
        """The file of the float original; None if none is known."""
        return None if self.original is None else self.original.path

    @cached_property
    def base(self) -> onnx.ModelProto:
        """An ONNX model as QDQ, unedited: shared with `model`, so copy it to change it."""
        # A lifted one also says in its metadata what it was made from.
        return self.apply([]).proto if self.lifted else self.model.as_onnx("edit").stated

    @cached_property
    def clips(self) -> Clips:
        """The ReLUs and Clips that quantizers do the work of, by the tensor's name."""
        return self._subject.clips(self.original, self.pairing)

    def apply(self, edits: Sequence[Edit]) -> Applied:
        """Apply the edits in their order; raise one line for the first that cannot be."""
        edits = tuple(edits)
        plan, outcome = self._resolve(edits)
        written = self._subject.write(self._wiring, outcome, self.clips, self._provenance(edits))
        found = self._preview(edits, plan, outcome)
        original = () if self.original is None else (self.original.path,)
        return Applied(
            written=written,
            base_digest=self.model.digest,
            edits=edits,
            changes=found.changes,
            warnings=found.warnings,
            notes=found.notes,
            lifted=self.lifted,
            sources=(*self.model.files, *original),
        )

    def preview(self, edits: Sequence[Edit]) -> Preview:
        """Say what edits would do; no model is made, which is most of the work of `apply`.

        Raises as `apply` does, but for what this kind of file has no place for.
        """
        edits = tuple(edits)
        return self._preview(edits, *self._resolve(edits))

    def float_notes(self) -> tuple[str, ...]:
        """Say in one line which constants, of all that edits have reached, have no float values."""
        return self._floats.all_notes()

    def bit_groups(self, target: str) -> list[tuple[QuantTensor, tuple[str, ...]]]:
        """Give the tensors that `SetBits` means by a target, each with those that share its scale.

        Of several that share one, the first stands for all. What a role holds and cannot be edited
        is left out.
        """
        found: list[tuple[QuantTensor, tuple[str, ...]]] = []
        taken: set[str] = set()
        for tensor in tensors_with_bits(self.network, target):
            if target in MANY and not is_editable(self._wiring, tensor):
                continue
            if tensor.name not in {*taken, *self._wiring.derived}:
                mates = self._wiring.scale_mates[tensor.name]
                taken.update((tensor.name, *mates))
                found.append((tensor, mates))
        return found

    def _resolve(self, edits: tuple[Edit, ...]) -> tuple[EditPlan, Outcome]:
        subject = self._subject
        plan = make_plan(
            self._wiring,
            subject.network,
            edits,
            self._floats,
            neighbours=self._neighbours,
            packs=subject.packs,
        )
        return plan, resolve(plan, self._wiring, self._subject.network, self._floats)

    def _preview(self, edits: tuple[Edit, ...], plan: EditPlan, outcome: Outcome) -> Preview:
        changes = tuple(changes_of(plan, outcome, self._wiring))
        notes = [*([LIFTED] if self.lifted else []), *outcome.notes]
        notes += clip_notes(plan, self._wiring, self.clips)
        notes += self._subject.notes(self._wiring, outcome)
        if edits and not changes:
            notes.append(NOTHING_CHANGED)
        warnings = tuple(warnings_of(outcome, self.clips))
        return Preview(changes=changes, warnings=warnings, notes=tuple(notes))

    def _provenance(self, edits: tuple[Edit, ...]) -> str | None:
        """State what the model is made from; None where it is the file as it was."""
        if not edits and not self.lifted:
            return None
        return state_edits(
            self.model.metadata.get(PROVENANCE_KEY),
            base_digest=self.model.digest,
            edits=edits,
            lifted=self.lifted,
            float_digest=self.pairing.float_digest if self.pairing else None,
        )

    @cached_property
    def against(self) -> tuple[Model, Pairing]:
        """The float network to measure against, paired: every quantizer off where none is known.

        Edits take nothing from a stand-in, so `original` and `pairing` stay None then.
        """
        if self.original is not None and self.pairing is not None:
            return self.original, self.pairing
        floats = need_original(self.model)
        return floats, self._subject.pair(floats)

    def _pair(self, *, must: bool) -> Pairing | None:
        """Pair with the original; one that nobody asked for may fail to belong to the model."""
        if self.original is None:
            return None
        try:
            return self._subject.pair(self.original)
        except BadModelError:
            if must:
                raise
            return None


def open_editor(model: "ModelSource | Editor", float_model: ModelSource | None = None) -> Editor:
    """Open what was given under edits; an editor is taken as it is."""
    return model if isinstance(model, Editor) else Editor(model, float_model)


def apply(
    model: ModelSource, edits: Sequence[Edit], *, float_model: ModelSource | None = None
) -> Applied:
    """Apply edits to a model; an `Editor` is quicker for more than one list."""
    return Editor(model, float_model).apply(edits)
