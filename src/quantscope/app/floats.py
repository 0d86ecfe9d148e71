"""Which float model belongs to an opened one: as a network to show, and for PyTorch to compare."""

import hashlib
import tempfile
from functools import cache
from pathlib import Path

from quantscope.edit.torch.floats import known_float_program
from quantscope.model import Network
from quantscope.zoo import bundled_models, known_float_model, read_safetensors, write_onnx


def floats_of(network: Network, given: Path | None) -> tuple[Path | None, Path | None]:
    """The float model, and for a PT2E program its form as PyTorch has it, None where unknown.

    ResNet8's weights (.safetensors) are no network, so they are shown as the ONNX file of them.
    """
    if network.format != "pt2e":
        return known_float_model(network, given), None
    if given is None or given.suffix == ".onnx":
        program = known_float_program(network, None)
        shown = _as_network(program) if program else known_float_model(network, None)
        return given or shown, program  # pairing refuses one with other weights
    program = known_float_program(network, given)
    return (_as_network(program) if program else None), program


def _as_network(program: Path) -> Path:
    if program.suffix != ".safetensors":
        return program
    bundled = bundled_models()
    if program == bundled["resnet8-torch"]:
        return bundled["resnet8"]
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    path = Path(_folder().name) / digest[:16] / f"{program.stem}.onnx"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_onnx(read_safetensors(program), path)
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """For as long as the process runs."""
    return tempfile.TemporaryDirectory(prefix="quantscope-floats-")
