"""One door to edits for ONNX models and PT2E programs."""

from collections.abc import Sequence
from pathlib import Path

from quantscope.edit.applied import Applied
from quantscope.edit.apply import Editor
from quantscope.edit.edits import Edit
from quantscope.edit.torch.apply import AppliedProgram, ProgramEditor
from quantscope.errors import BadModelError
from quantscope.model import OnnxFile
from quantscope.model.reader import TORCH_SUFFIXES
from quantscope.model.torch import is_zip
from quantscope.zoo import find_model

AnyEditor = Editor | ProgramEditor
AnyApplied = Applied | AppliedProgram


def open_editor(model: str | Path | OnnxFile, float_model: str | Path | None = None) -> AnyEditor:
    """The editor for a model's kind, told by its content; nothing of the file is executed."""
    if isinstance(model, OnnxFile):
        return Editor(model, float_model=float_model)
    path = find_model(model)
    if path.suffix == ".safetensors":
        raise BadModelError(
            f"{path.name} is not quantized: it has no parameters to edit; make a quantized program "
            f"of it with: quantscope quantize {model} -o OUT.pt2 --framework torch"
        )
    if path.suffix in TORCH_SUFFIXES or is_zip(path):
        return ProgramEditor(path, float_model=float_model)
    return Editor(path, float_model=float_model)


def apply(
    model: str | Path | OnnxFile, edits: Sequence[Edit], *, float_model: str | Path | None = None
) -> AnyApplied:
    """The model with these edits; `open_editor` is quicker for more than one list."""
    return open_editor(model, float_model).apply(edits)
