"""This module looks into a PyTorch file before anything is loaded. It needs no torch.

Kinds are told apart by what an archive holds, not by its name: programs of torch.export,
TorchScript archives, and pickles, which run code when they are loaded and are refused.
"""

import io
import json
import logging
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from quantscope.errors import TORCH_INSTALL, BadModelError, MissingExtraError
from quantscope.files import check_file
from quantscope.model.torch.archive import (
    PickleContent,
    TorchArchive,
    is_zip,
    look_into,
    new_archive,
    open_archive,
)
from quantscope.model.torch.pt2_operators import RefusedError
from quantscope.model.torch.pt2_program import DTYPES, clean_payloads, clean_program

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


TorchKind = Literal["pt2", "torchscript"]

_PROGRAM = "models/model.json"
_SAMPLES = "data/sample_inputs/model.pt"
_CONFIGS = {
    "data/weights/": "data/weights/model_weights_config.json",
    "data/constants/": "data/constants/model_constants_config.json",
}
_EXTRA = "extra/"
_PLAIN_MEMBERS = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/version|\.data/serialization_id"
    r"|\.format_version|\.storage_alignment"
    rf"|{_PROGRAM}|{_SAMPLES}|{'|'.join(_CONFIGS.values())}"
    r"|data/weights/weight_\d+|data/constants/tensor_\d+"
    rf"|{_EXTRA}.+"
)
_HOSTILE_MEMBERS = (
    (r"data/aotinductor/", "compiled code"),
    (r"data/constants/custom_obj_", "a script object"),
    (r"data/constants/opaque_obj_", "a pickled Python object"),
    (r"data/(weights|constants)/.*\.pt$", "pickled weights, the way torch 2.8 saved them"),
    (r"models/", "more than one program"),
)
_MOST_PROGRAM_BYTES = 512 << 20
_MOST_EXTRA_BYTES = 1 << 20
_MOST_SAMPLE_PICKLE_BYTES = 1 << 20

_ELEMENT_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4,
                  "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2}  # fmt: skip
_CONVERT = "save the model with torch.export.save(torch.export.export(model.eval(), inputs), FILE)"


@dataclass(frozen=True)
class StoredTensor:
    """The place of a weight's bytes: a member of the archive, and where in it.

    `strides` and `offset` count elements, not bytes.
    """

    member: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Pt2File:
    """A checked program of torch.export. `program` is what models/model.json says, rebuilt."""

    path: Path
    digest: str
    program: Mapping[str, Any] = field(repr=False)
    stored: Mapping[str, StoredTensor] = field(repr=False)
    metadata: Mapping[str, str]
    archive: TorchArchive = field(repr=False)
    configs: Mapping[str, Any] = field(repr=False)

    def for_loading(self) -> io.BytesIO:
        """Make an archive of the rebuilt program and its tensors alone, which torch may load."""
        members = {
            "archive_format": b"pt2",
            "archive_version": b"0",
            ".data/version": b"6",
            "byteorder": b"little",
            _PROGRAM: json.dumps(dict(self.program)).encode(),
            _SAMPLES: b"",
        }
        members |= {name: json.dumps(config).encode() for name, config in self.configs.items()}
        members |= {
            tensor.member: self.archive.read(tensor.member) for tensor in self.stored.values()
        }
        return new_archive(members)


def torch_kind(path: Path) -> TorchKind:
    """Tell what kind of PyTorch file this is; raise for those that are not opened, saying why."""
    check_file(path, "a PyTorch program (.pt2)", BadModelError)
    if not is_zip(path):
        _refuse_pickle(path)
    return archive_kind(open_archive(path))


def open_pt2(path: Path) -> Pt2File:
    """Check a program and rebuild it; nothing of the file is unpickled, evaluated or imported."""
    archive = open_archive(path)
    if archive_kind(archive) != "pt2":
        raise BadModelError(f"{path.name} is a TorchScript archive, not a program of torch.export")
    try:
        _check_members(archive)
        program = clean_program(archive.read(_PROGRAM))
        configs = {}
        for name in _CONFIGS.values():
            configs[name] = clean_payloads(archive.read(name))
        stored = {
            fqn: _stored(archive, folder, fqn, entry)
            for folder, name in _CONFIGS.items()
            for fqn, entry in configs[name]["config"].items()
        }
        _check_samples(archive)
    except RefusedError as reason:
        raise BadModelError(f"{path.name} is not loaded: {reason}") from None
    return Pt2File(
        path=path,
        digest=archive.digest,
        program=MappingProxyType(program),
        stored=MappingProxyType(stored),
        metadata=MappingProxyType(extra_texts(archive)),
        archive=archive,
        configs=MappingProxyType(configs),
    )


def archive_kind(archive: TorchArchive) -> TorchKind:
    """Tell programs and TorchScript apart by their members; raise for archives of other kinds."""
    names, path = archive.sizes, archive.path
    if "archive_format" in names or any(name.startswith("models/") for name in names):
        return "pt2"
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return "torchscript"
    if "data.pkl" in names:
        raise _not_a_program(path, look_into(archive.read("data.pkl")))
    if "serialized_exported_program.json" in names:
        raise BadModelError(
            f"{path.name} was saved by an old torch.export, which pickled its weights; load it "
            f"where it was made and {_CONVERT} with torch 2.8 or newer"
        )
    raise BadModelError(
        f"{path.name} is a zip archive, but no PyTorch model: it has neither a program nor "
        f"TorchScript code; {_CONVERT}"
    )


def _refuse_pickle(path: Path) -> None:
    """Refuse what torch.save wrote before it wrote zip archives, and any other pickle."""
    with path.open("rb") as file:
        start = file.read(2)
        if start[:1] == b"\x80" and start[1:] in (b"\x02", b"\x03", b"\x04", b"\x05"):
            file.seek(0)
            raise _not_a_program(path, _all_pickles(file.read(16 << 20)))


def _all_pickles(content: bytes) -> PickleContent:
    """Look into the older format: several pickles after each other, then the tensors' bytes."""
    found: list[str] = []
    foreign: str | None = None
    for _ in range(5):  # a magic number, the version, the machine, the object, its storages' keys
        end = _end_of_pickle(content)
        if end is None:
            break
        part = look_into(content[:end])
        found += part.globals
        foreign = foreign or part.foreign
        content = content[end:]
    return PickleContent(tuple(found), foreign)


def _end_of_pickle(content: bytes) -> int | None:
    try:
        return max(position for _, _, position in pickletools.genops(content) if position) + 1
    except Exception:  # pickletools raises whatever its decoders raise; then it is no pickle
        return None


def _not_a_program(path: Path, content: PickleContent) -> BadModelError:
    """Make the error for a pickle: weights alone, or an object that can run code."""
    if content.is_plain:
        return BadModelError(
            f"{path.name} holds weights alone (a state dict), not a network; load them into "
            f"their module and {_CONVERT}, or write ResNet8's with "
            f"safetensors.torch.save_file(state_dict, 'FILE.safetensors')"
        )
    return BadModelError(
        f"{path.name} is a pickled Python object ({content.foreign}), which can run any code when "
        f"it is loaded, so it is not; where it was made, {_CONVERT} as .pt2"
    )


def _check_members(archive: TorchArchive) -> None:
    """Raise if the archive has a member that can do harm or is not known, or lacks one."""
    for name in archive.sizes:
        if _PLAIN_MEMBERS.fullmatch(name):
            continue
        for pattern, what in _HOSTILE_MEMBERS:
            if re.match(pattern, name):
                raise RefusedError(
                    f"it holds {what} ({name}); save the program alone with torch.export.save"
                )
        raise RefusedError(f"it holds {name[:80]!r}, which torch.export does not write")
    for name in (_PROGRAM, *_CONFIGS.values()):
        if name not in archive:
            raise RefusedError(f"it has no {name}")
    if archive.sizes[_PROGRAM] > _MOST_PROGRAM_BYTES:
        raise RefusedError("its program is of an absurd size")
    if "archive_format" in archive and archive.read("archive_format") != b"pt2":
        raise RefusedError("its archive_format is not pt2")
    if "archive_version" in archive and archive.read("archive_version") != b"0":
        raise RefusedError("its archive version is a newer one than is known here")
    if "byteorder" in archive and archive.read("byteorder") != b"little":
        raise RefusedError("its weights are in big-endian order")


def _stored(archive: TorchArchive, folder: str, fqn: str, entry: Any) -> StoredTensor:
    """Find a weight's place; raise if its shape reaches beyond the bytes that are stored."""
    meta = entry["tensor_meta"]
    try:
        sizes, strides = (tuple(d["as_int"] for d in meta[key]) for key in ("sizes", "strides"))
        offset = meta["storage_offset"]["as_int"]
    except KeyError:
        raise RefusedError(f"the shape of the weight {fqn} is not a number") from None
    member = folder + entry["path_name"]
    if member not in archive:
        raise RefusedError(f"the weight {fqn} is missing ({member})")
    dtype = DTYPES[meta["dtype"]]
    if len(sizes) != len(strides) or min((*sizes, *strides, offset)) < 0:
        raise RefusedError(f"the weight {fqn} has an impossible shape")
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    needed = 0 if 0 in sizes else (last + 1) * _ELEMENT_BYTES.get(dtype, 1)
    if needed > archive.sizes[member]:
        raise RefusedError(
            f"the weight {fqn} needs {needed} bytes, but {archive.sizes[member]} are stored"
        )
    return StoredTensor(member, dtype, sizes, strides, offset)


def _check_samples(archive: TorchArchive) -> None:
    """Refuse example inputs that are not tensors: they are never loaded, but show intent."""
    if not archive.sizes.get(_SAMPLES):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(archive.read(_SAMPLES))) as inner:
            pickles = [m for m in inner.infolist() if m.filename.split("/")[-1] == "data.pkl"]
            _check_sample_pickles(pickles)
            contents = [look_into(inner.read(member)) for member in pickles]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise RefusedError(f"its example inputs are not readable ({error})") from None
    for content in contents:
        if not content.is_plain:
            raise RefusedError(
                f"its example inputs are a pickle of {content.foreign}, which runs code when it "
                f"is loaded"
            )


def _check_sample_pickles(members: list[zipfile.ZipInfo]) -> None:
    """Refuse deflated pickles unread: torch.save stores them as they are, so it is a bomb."""
    size = sum(member.file_size for member in members)
    if size > _MOST_SAMPLE_PICKLE_BYTES:
        raise RefusedError(f"its example inputs would unpack to a pickle of {size} bytes")
    if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 0x1 for m in members):
        raise RefusedError("its example inputs are compressed or encrypted, as torch never does")


def extra_texts(archive: TorchArchive) -> dict[str, str]:
    """Read the texts that were saved along (`extra_files`), without large and binary ones."""
    found = {}
    for name, size in archive.sizes.items():
        if name.startswith(_EXTRA) and size <= _MOST_EXTRA_BYTES:
            try:
                found[name.removeprefix(_EXTRA)] = archive.read(name).decode()
            except UnicodeDecodeError:
                continue
    return found


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


def nest_inputs(
    program: "ExportedProgram", inputs: "Sequence[torch.Tensor]"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Nest inputs in the order of the ports as the exported module was called with them."""
    from torch.utils import _pytree as pytree

    args, kwargs = pytree.tree_unflatten(list(inputs), program.call_spec.in_spec)
    return tuple(args), dict(kwargs)


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
