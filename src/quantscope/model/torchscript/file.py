"""This module looks into a TorchScript archive before torch loads it. It needs no torch."""

import io
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quantscope.errors import BadModelError
from quantscope.model.torch import (
    RefusedError,
    TorchArchive,
    archive_kind,
    extra_texts,
    look_into,
    new_archive,
    open_archive,
)
from quantscope.model.torchscript.code import check_code

_CODE = re.compile(r"code/__torch__(/\w+)*(/\w+)?\.py")
_LOADED = re.compile(
    r"data\.pkl|constants\.pkl|version|byteorder|\.data/version|\.format_version"
    r"|\.storage_alignment|(data|constants)/\d+|code/.*\.py"
)
# For debuggers, for phones, and examples: not needed, so not loaded.
_LEFT_OUT = re.compile(
    r"code/.*\.debug_pkl|\.data/serialization_id|traced_inputs(\.pkl|/\d+)|bytecode\.pkl"
    r"|mobile_debug_handles\.pkl|extra/.+"
)
_TORCHSCRIPT_GLOBALS = ("__torch__.", "__torch__ ", "torch.jit._pickle ")
_MOST_TRACED_BYTES = 1 << 20


@dataclass(frozen=True)
class TorchScriptFile:
    """A checked archive. `traced_shape` is the input that it was traced with, None if not kept."""

    path: Path
    digest: str
    metadata: Mapping[str, str]
    traced_shape: tuple[int, ...] | None
    archive: TorchArchive = field(repr=False)

    def for_loading(self) -> io.BytesIO:
        """Make an archive in memory with the checked members alone, which torch may load."""
        names = [name for name in self.archive.sizes if _LOADED.fullmatch(name)]
        return new_archive({name: self.archive.read(name) for name in names})


def open_torchscript(path: Path) -> TorchScriptFile:
    """Open an archive; refuse one that holds anything that could do harm when torch loads it."""
    archive = open_archive(path)
    if archive_kind(archive) != "torchscript":
        raise BadModelError(f"{path.name} is a program of torch.export, not a TorchScript archive")
    try:
        _check_members(archive)
        check_code({name: _text(archive, name) for name in archive.sizes if name.endswith(".py")})
    except RefusedError as reason:
        raise BadModelError(f"{path.name} is not loaded: {reason}") from None
    return TorchScriptFile(
        path=path,
        digest=archive.digest,
        metadata=MappingProxyType(extra_texts(archive)),
        traced_shape=_traced_shape(archive),
        archive=archive,
    )


def _check_members(archive: TorchArchive) -> None:
    for name in archive.sizes:
        if not _LOADED.fullmatch(name) and not _LEFT_OUT.fullmatch(name):
            raise RefusedError(f"it holds {name[:80]!r}, which torch.jit.save does not write")
        if name.endswith(".py") and not _CODE.fullmatch(name):
            raise RefusedError(f"it holds code at the unusual place {name[:80]!r}")
    for name in ("data.pkl", "constants.pkl"):
        content = look_into(archive.read(name), also=_TORCHSCRIPT_GLOBALS)
        foreign = content.foreign or next(
            (g for g in content.globals if "torch.classes." in g and ".quantized" not in g), None
        )
        if foreign:
            raise RefusedError(f"its {name} holds {foreign}, which no quantized network needs")


def _text(archive: TorchArchive, name: str) -> str:
    try:
        return archive.read(name).decode()
    except UnicodeDecodeError:
        raise RefusedError(f"its code is not text ({name})") from None


class _ShapesOnly(pickle.Unpickler):
    """An unpickler of plain values: a tensor becomes its shape, any other name an error."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _shape_of_tensor
        if (module, name) == ("torch.jit._pickle", "restore_type_tag"):
            return _value_of_tag
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and name.endswith("Storage"):
            return name
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, _pid: Any) -> None:
        return None


def _shape_of_tensor(_storage: object, _offset: object, size: Any, *_rest: object) -> Any:
    return tuple(size)


def _value_of_tag(value: Any, _tag: object) -> Any:
    return value


def _traced_shape(archive: TorchArchive) -> tuple[int, ...] | None:
    """Read the shape of the first input of `forward`, where tracing left it."""
    if not 0 < archive.sizes.get("traced_inputs.pkl", 0) <= _MOST_TRACED_BYTES:
        return None
    try:
        found = _ShapesOnly(io.BytesIO(archive.read("traced_inputs.pkl"))).load()
        shape = found["forward"][0]
    except Exception:  # not what tracing leaves; then the shape is just not known
        return None
    plain = isinstance(shape, tuple) and all(type(dim) is int and dim > 0 for dim in shape)
    return shape if plain else None
