"""This module lets torch load checked programs, and has what every loading by torch needs.

It needs the `torch` extra.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from quantscope.errors import TORCH_INSTALL, BadModelError, MissingExtraError
from quantscope.model.torch.file import Pt2File

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def require_torch(what: str) -> None:
    """Raise, with the command that installs it, if torch is not there to do `what`."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"PyTorch is needed to {what} and is not installed; install it with: {TORCH_INSTALL}"
        ) from None


ONE_AT_A_TIME = RLock()
"""The lock for exporting and loading: torch.export keeps what it is at in globals."""


def load_program(file: Pt2File) -> "ExportedProgram":
    """Load the program as torch has it, without example inputs and guards on them."""
    require_torch(f"run {file.path.name}")
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed operators

    try:
        with ONE_AT_A_TIME, quiet():
            return torch.export.load(file.for_loading())
    except Exception as error:  # whatever torch's loader meets in a damaged program
        raise BadModelError(
            f"PyTorch {torch.__version__} cannot load {file.path.name} (saved by "
            f"{file.program['torch_version']}): {first_line(error)}"
        ) from None


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch from logging a traceback before it raises, and from warning of deprecations."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            for kind in (DeprecationWarning, FutureWarning):
                warnings.filterwarnings("ignore", category=kind, module="torch")
            yield
    finally:
        logger.setLevel(level)
