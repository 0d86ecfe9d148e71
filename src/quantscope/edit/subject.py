"""The protocol of a model that edits are made to: all that differs between the kinds of files.

What an edit means, what moves with it and what it refuses is decided once, on a QDQ graph
(`wiring.py`, `plan.py`, `outcome.py`). A subject gives its file in that form, and writes what was
decided back into a file of its own kind. `edit/onnx` and `edit/torch` have one each.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quantscope.edit.clips import FoldedClip
from quantscope.edit.outcome import Outcome
from quantscope.edit.wiring import QdqGraph, Wiring
from quantscope.model import Model, Network, Pairing

if TYPE_CHECKING:
    from onnx import ModelProto

Clips = Mapping[str, tuple[FoldedClip, ...]]
"""The ReLUs and Clips that quantizers do the work of, by the tensor's name."""


class Written(Protocol):
    """An edited model that is not a file yet."""

    @property
    def proto(self) -> "ModelProto":
        """The model in memory, for ONNX; it is the caller's to keep, not to change."""

    def to_bytes(self) -> bytes:
        """Give the file's bytes, which are the same for the same model, edits and versions."""

    def check(self, path: Path) -> None:
        """Raise one line if what was made is no valid model; `path` is where it shall be."""


class Subject(Protocol):
    """One model under edits."""

    suffix: str
    """The suffix of the files that edited models become."""
    lifted: bool
    """It says whether the file is QOperator, and was stated as QDQ first."""
    packs: bool
    """It says whether stored integers of 4 bits have a type of their own."""
    why_not_rescaled: str
    """The reason why channels between its layers are not rescaled; empty where they are."""

    @property
    def network(self) -> Network:
        """The reading of `graph`; its tensors and layers have the names that the file's have."""

    @property
    def graph(self) -> QdqGraph:
        """The file's graph as QDQ, unedited."""

    def pair(self, original: Model) -> Pairing:
        """Find which float weights and activations the quantized ones stand for."""

    def clips(self, original: Model | None, pairing: Pairing | None) -> Clips:
        """Find the ReLUs and Clips that quantizers replaced; without a float model, guess them."""

    def write(
        self, wiring: Wiring, outcome: Outcome, clips: Clips, provenance: str | None
    ) -> Written:
        """Make a changed copy; `provenance` replaces what the file says about how it was made."""

    def notes(self, wiring: Wiring, outcome: Outcome) -> Iterator[str]:
        """Give plain lines about what this kind of file makes of an outcome."""


def open_subject(model: Model) -> Subject:
    """Open the subject of a model's framework; one that cannot be edited is one clear line."""
    if model.framework == "torch":
        from quantscope.edit.torch import open_program_subject

        return open_program_subject(model)
    from quantscope.edit.onnx import OnnxSubject

    return OnnxSubject(model.as_onnx("edit"))
