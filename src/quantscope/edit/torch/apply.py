"""Edits applied to a PT2E program, through its graph's arguments. Needs no torch.

What an edit means is the same as for ONNX models (`quantscope.edit.plan`); only what is written
differs. The program and its file stay as they are.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import onnx

from quantscope.edit.applied import Change, EditWarning, set_provenance
from quantscope.edit.changes import NOTHING_CHANGED, changes_of, clip_notes, warnings_of
from quantscope.edit.edits import Edit
from quantscope.edit.onnx.clips import FoldedClip, folded_clips
from quantscope.edit.onnx.floats import FloatValues
from quantscope.edit.onnx.wiring import Graph, Wiring, wire
from quantscope.edit.outcome import Outcome, resolve
from quantscope.edit.plan import make_plan
from quantscope.edit.torch.floats import known_float_program, paired_with
from quantscope.edit.torch.shadow import shadow_of
from quantscope.edit.torch.write import ProgramWriter
from quantscope.errors import BadModelError
from quantscope.files import check_outputs, write_whole
from quantscope.model import Network, Pairing
from quantscope.model.provenance import PROVENANCE_KEY
from quantscope.model.torch import open_pt2, program_graph, read_pt2, torch_kind
from quantscope.zoo import find_model


@dataclass(frozen=True)
class AppliedProgram:
    """An edited program, as `Applied` is an edited ONNX model; `content` is the file (.pt2)."""

    content: bytes = field(repr=False, compare=False)
    base_digest: str
    edits: tuple[Edit, ...]
    changes: tuple[Change, ...]
    warnings: tuple[EditWarning, ...]
    notes: tuple[str, ...]
    sources: tuple[Path, ...] = field(repr=False)
    lifted: bool = False

    def to_bytes(self) -> bytes:
        """The file's bytes: the same for the same program, edits and versions."""
        return self.content

    def save(self, path: Path | str) -> str:
        """Write the program whole and give its sha256; never over one that it was made from."""
        path = Path(path)
        check_outputs([path], reads=self.sources)
        write_whole(path, self.content)
        return hashlib.sha256(self.content).hexdigest()


class ProgramEditor:
    """A PT2E program opened once, with its float program or weights, for many edit lists.

    As `Editor`: without `float_model` the known one is taken, if there is any; without one,
    integers are rounded from what the file's own integers stand for, and a note says so.
    """

    suffix = ".pt2"
    """Of the files that edited programs become."""

    def __init__(self, model: str | Path, float_model: str | Path | None = None) -> None:
        path = find_model(model)
        if torch_kind(path) != "pt2":
            raise BadModelError(
                f"{path.name} is a TorchScript archive, whose weights are packed for its kernels; "
                f"edit the ONNX file or the program (.pt2) that it comes from"
            )
        self.file = open_pt2(path)
        self.network: Network = read_pt2(self.file)
        if not self.network.is_quantized:
            raise BadModelError(
                f"{path.name} is not quantized: it has no parameters to edit; "
                f"make a quantized program with: quantscope quantize FLOAT.safetensors "
                f"-o OUT.pt2 --framework torch"
            )
        self._program = program_graph(self.file)
        graph = shadow_of(self.file, self._program)
        self._wiring: Wiring = wire(graph, self.network)
        self.float_path = known_float_program(self.network, float_model)
        self.pairing: Pairing | None = self._paired(must=float_model is not None)
        self._floats = FloatValues(graph, self.pairing)

    @cached_property
    def clips(self) -> dict[str, tuple[FoldedClip, ...]]:
        """By tensor: the ReLUs and Clips that its quantizer does the work of; PT2E folds few."""
        path = self.float_path
        if self.pairing is None or path is None or path.suffix == ".safetensors":
            return folded_clips(self.network, None, None, None)
        floats = open_pt2(path)
        graph: Graph = shadow_of(floats, program_graph(floats))
        return folded_clips(self.network, self.pairing, read_pt2(floats), graph)

    def apply(self, edits: Sequence[Edit]) -> AppliedProgram:
        edits = tuple(edits)
        plan = make_plan(self._wiring, self.network, edits)
        outcome = resolve(plan, self._wiring, self.network, self._floats)
        writer = ProgramWriter(self.file, self._program)
        writer.write(self._wiring, outcome, self.clips)
        metadata = dict(self.file.metadata)
        if edits:
            metadata[PROVENANCE_KEY] = self._provenance(edits)
        changes = tuple(changes_of(plan, outcome, self._wiring))
        notes = [*outcome.notes, *clip_notes(plan, self._wiring, self.clips)]
        notes += self._limit_notes(outcome, writer)
        if edits and not changes:
            notes.append(NOTHING_CHANGED)
        return AppliedProgram(
            content=writer.to_bytes(metadata),
            base_digest=self.file.digest,
            edits=edits,
            changes=changes,
            warnings=tuple(warnings_of(outcome, self.clips)),
            notes=tuple(notes),
            sources=tuple(p for p in (self.file.path, self.float_path) if p is not None),
        )

    def _paired(self, *, must: bool) -> Pairing | None:
        if self.float_path is None:
            return None
        try:
            return paired_with(self.network, self.float_path)
        except BadModelError:
            if must:
                raise
            return None

    def _provenance(self, edits: tuple[Edit, ...]) -> str:
        """As ONNX models say it."""
        said = onnx.ModelProto()
        if PROVENANCE_KEY in self.file.metadata:
            said.metadata_props.add(key=PROVENANCE_KEY, value=self.file.metadata[PROVENANCE_KEY])
        set_provenance(
            said,
            base_digest=self.file.digest,
            edits=edits,
            lifted=False,
            float_digest=self.pairing.float_digest if self.pairing else None,
        )
        return str(said.metadata_props[0].value)

    def _limit_notes(self, outcome: Outcome, writer: ProgramWriter) -> Iterator[str]:
        for each in outcome.tensors:
            params, limits = each.params, writer.limits(each.tensor)
            if params is None or params == each.tensor.params or limits is None:
                continue
            if limits != (params.qmin, params.qmax) and each.tensor.role == "activation":
                ends = [float((q - params.zero_point) * params.scale) for q in limits]
                yield (
                    f"{each.tensor.name} uses only {limits[0]}..{limits[1]} of {params.dtype}: "
                    f"it represents [{ends[0]:g}, {ends[1]:g}]"
                )
