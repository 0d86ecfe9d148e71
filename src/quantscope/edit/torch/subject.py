"""The PyTorch implementation of the protocol that edits are made through. It needs no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import onnx

from quantscope.edit.clips import folded_clips
from quantscope.edit.outcome import Outcome
from quantscope.edit.subject import Clips
from quantscope.edit.torch.floats import pair_with_floats
from quantscope.edit.torch.shadow import shadow_of
from quantscope.edit.torch.write import ProgramWriter
from quantscope.edit.wiring import Wiring
from quantscope.errors import BadModelError
from quantscope.model import PROVENANCE_KEY, Model, Network, Pairing
from quantscope.model.torch import ProgramModel, WeightsModel


@dataclass(frozen=True)
class ProgramWritten:
    """An edited program as the bytes of its file (.pt2)."""

    content: bytes = field(repr=False)

    @property
    def proto(self) -> onnx.ModelProto:
        raise TypeError("an edited program of PyTorch is no ONNX model")

    def to_bytes(self) -> bytes:
        return self.content

    def check(self, path: Path) -> None:
        """Nothing is to be checked: only arguments and tensors of a checked program changed."""


def open_program_subject(model: Model) -> "ProgramSubject":
    """Open a program for edits; refuse PyTorch files that hold no quantized program."""
    match model:
        case ProgramModel():
            return ProgramSubject(model)
        case WeightsModel():
            raise BadModelError(
                f"{model.name} is not quantized: it has no parameters to edit; make a quantized "
                f"program of it with: quantscope quantize {model.given} -o OUT.pt2 --framework "
                f"torch"
            )
        case _:
            raise BadModelError(
                f"{model.name} is a TorchScript archive, whose weights are packed for its kernels; "
                f"edit the ONNX file or the program (.pt2) that it comes from"
            )


class ProgramSubject:
    """A PT2E program under edits; `graph` is a shadow of its own graph, which nobody runs."""

    suffix = ".pt2"
    why_not_rescaled = "channels of a PyTorch program are not rescaled"
    lifted = False
    packs = False

    def __init__(self, model: ProgramModel) -> None:
        if not model.network.is_quantized:
            raise BadModelError(
                f"{model.name} is not quantized: it has no parameters to edit; "
                f"make a quantized program with: quantscope quantize FLOAT.safetensors "
                f"-o OUT.pt2 --framework torch"
            )
        self._model = model
        self.graph = shadow_of(model.file, model.graph)

    @property
    def network(self) -> Network:
        return self._model.network

    def pair(self, original: Model) -> Pairing:
        return pair_with_floats(self.network, original)

    def clips(self, original: Model | None, pairing: Pairing | None) -> Clips:
        """Find what quantizers replaced; PT2E folds few, and weights alone do not say which."""
        program = None if original is None else original.as_program
        if pairing is None or program is None:
            return folded_clips(self.network, None, None, None)
        graph = shadow_of(program.file, program.graph)
        return folded_clips(self.network, pairing, program.network, graph)

    def write(
        self, wiring: Wiring, outcome: Outcome, clips: Clips, provenance: str | None
    ) -> ProgramWritten:
        writer = ProgramWriter(self._model.file, self._model.graph)
        writer.write(wiring, outcome, clips)
        metadata = dict(self._model.metadata)
        if provenance is not None:
            metadata[PROVENANCE_KEY] = provenance
        return ProgramWritten(writer.to_bytes(metadata))

    @cached_property
    def _unchanged(self) -> ProgramWriter:
        """A copy that nothing is written into, to ask what the file's quantizers say."""
        return ProgramWriter(self._model.file, self._model.graph)

    def notes(self, wiring: Wiring, outcome: Outcome) -> Iterator[str]:
        """Tell of quantizers that use fewer integers than their type has."""
        del wiring  # the protocol gives it; only ONNX files need it
        for each in outcome.tensors:
            params, limits = each.params, self._unchanged.limits(each.tensor)
            if params is None or params == each.tensor.params or limits is None:
                continue
            if params.ends is not None:
                continue  # its bits say it already
            if limits != (params.qmin, params.qmax) and each.tensor.role == "activation":
                ends = [float((q - params.zero_point) * params.scale) for q in limits]
                yield (
                    f"{each.tensor.name} uses only {limits[0]}..{limits[1]} of {params.dtype}: "
                    f"it represents [{ends[0]:g}, {ends[1]:g}]"
                )
