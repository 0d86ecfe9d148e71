"""This module lets torch load checked TorchScript archives. It needs the `torch` extra."""

import warnings
from typing import TYPE_CHECKING

from quantscope.errors import BadModelError
from quantscope.model.torch import ONE_AT_A_TIME, first_line, quiet, require_torch
from quantscope.model.torchscript.file import TorchScriptFile

if TYPE_CHECKING:
    from torch.jit import ScriptModule


def load_torchscript(file: TorchScriptFile) -> "ScriptModule":
    """Load the archive's module, its weights packed for this machine's quantized engine."""
    require_torch(f"read {file.path.name}")
    import torch

    engines = torch.backends.quantized
    if engines.engine == "none" and (
        usable := [e for e in engines.supported_engines if e != "none"]
    ):
        engines.engine = "x86" if "x86" in usable else usable[-1]
    try:
        with ONE_AT_A_TIME, quiet():
            _warn_of_quantized_tensors_once()
            module: ScriptModule = torch.jit.load(  # type: ignore[no-untyped-call]
                file.for_loading(), map_location="cpu"
            )
            return module.eval()
    except Exception as error:  # whatever torch's loader meets in a damaged archive
        raise BadModelError(
            f"PyTorch {torch.__version__} cannot load {file.path.name}: {first_line(error)}"
        ) from None


def _warn_of_quantized_tensors_once() -> None:
    # Loading makes quantized tensors, and torch says once that these will go. Said from within the
    # loader it would be on stderr, out of Python's reach.
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
        torch.quantize_per_tensor(torch.zeros(1), 1.0, 0, torch.quint8)
