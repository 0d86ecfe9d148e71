"""Find the float model of an opened one: as a network to show, and for PyTorch to compare."""

import tempfile
from functools import cache
from pathlib import Path

from quantscope.model import Model, bundled_models, find_original, open_model
from quantscope.model.torch import WeightsModel
from quantscope.zoo import read_safetensors, write_onnx


def floats_of(model: Model, given: Model | None) -> tuple[Model | None, Model | None]:
    """Give the float model to show, and the one that `model` can be compared with.

    They differ for PyTorch's programs alone: ResNet8's weights (.safetensors) are no network, so
    they are shown as the ONNX file of them, and an ONNX file that was given can only be shown.
    """
    if model.framework == "onnx" or model.executions == ("runtime",):
        found = find_original(model, given)
        return found, found if model.framework == "onnx" else None
    if given is None or given.framework == "onnx":
        program = find_original(model)
        return given or (_as_network(program) if program else None), program
    program = find_original(model, given)
    return (_as_network(program) if program else None), program


def _as_network(program: Model) -> Model:
    """Write ResNet8's weights as ONNX, once, for they are no network by themselves."""
    if not isinstance(program, WeightsModel):
        return program
    bundled = bundled_models()
    if program.path == bundled["resnet8-torch"]:
        return open_model(bundled["resnet8"])
    path = Path(_folder().name) / program.digest[:16] / f"{program.path.stem}.onnx"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_onnx(read_safetensors(program.path), path)
    return open_model(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that lasts as long as the process runs."""
    return tempfile.TemporaryDirectory(prefix="quantscope-floats-")
