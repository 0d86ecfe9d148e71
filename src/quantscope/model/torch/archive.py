"""This module opens the zip archive that a PyTorch file is, without trusting it."""

import hashlib
import io
import pickletools
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from quantscope.errors import BadModelError
from quantscope.files import check_file

# PyTorch stores tensors as they are and deflates only TorchScript's code, so what was deflated
# is small; more is a bomb.
MOST_DEFLATED_BYTES = 64 << 20
MOST_MEMBERS = 100_000

_ZIP_START = b"PK\x03\x04"
_ENCRYPTED = 0x1
_NAME = re.compile(r"[^\\\x00-\x1f\x7f:]{1,1024}")
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


@dataclass(frozen=True)
class TorchArchive:
    """The members of a zip file by their names below its one folder, with their sizes in bytes.

    Content is read when it is asked for and checked against the sum that the archive has.
    """

    path: Path
    digest: str
    root: str
    sizes: Mapping[str, int]

    def __contains__(self, name: str) -> bool:
        return name in self.sizes

    def read(self, name: str) -> bytes:
        """Read a member whole; raise if it is not as long as the list of members says."""
        try:
            with zipfile.ZipFile(self.path) as file, file.open(self.root + name) as member:
                content = member.read(self.sizes[name] + 1)  # one more shows if it is longer
        except (*_UNREADABLE, KeyError) as error:
            raise _damaged(self.path, f"{name}: {error}") from None
        if len(content) != self.sizes[name]:
            raise _damaged(self.path, f"{name} is longer or shorter than it says")
        return content


def open_archive(path: Path) -> TorchArchive:
    """Open and check a zip file; one line of `BadModelError` says what is wrong with it."""
    size = _readable_size(path)
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw) as file:
            members = file.infolist()
            raw.seek(0)
            digest = hashlib.file_digest(raw, "sha256").hexdigest()
    except _UNREADABLE as error:
        raise _damaged(path, str(error)) from None
    if not members or min(member.header_offset for member in members) != 0:
        # A cut-off file may end with an archive that was a member of it.
        raise _damaged(path, "its list of members is not its own")
    root = _root(path, members)
    _check_sizes(path, members, size)
    return TorchArchive(
        path=path,
        digest=digest,
        root=root,
        sizes=MappingProxyType({m.filename.removeprefix(root): m.file_size for m in members}),
    )


def is_zip(path: Path) -> bool:
    """Tell whether a file begins as zip archives do; one that cannot be read does not."""
    try:
        with path.open("rb") as file:
            return file.read(4) == _ZIP_START
    except OSError:
        return False


def new_archive(members: Mapping[str, bytes]) -> io.BytesIO:
    """Make a fresh archive of just these members, for torch to load instead of the file.

    What was checked is then what is loaded: neither a reader that finds other bytes in the same
    zip file, nor a file that changed in between, makes a difference.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(f"archive/{name}"), content)
    buffer.seek(0)
    return buffer


def _readable_size(path: Path) -> int:
    """Give the file's size in bytes; raise if it does not begin as a zip archive does."""
    size = check_file(path, "a PyTorch model, .pt2 or .pt", kind=BadModelError)
    if size == 0:
        raise BadModelError(f"{path} is empty; it should be a PyTorch model")
    with path.open("rb") as file:
        start = file.read(64)
    if not start.startswith(_ZIP_START):
        shown = "it is text" if start.isascii() and b"\0" not in start else start[:8].hex(" ")
        raise BadModelError(
            f"{path} is not a PyTorch program: those are zip archives, and this one starts "
            f"otherwise ({shown}); save the model with torch.export.save"
        )
    return size


def _root(path: Path, members: list[zipfile.ZipInfo]) -> str:
    """Find the folder, with its slash, that all members share; "" if they share none.

    Names that could lead out of the archive, or mean two members, are refused.
    """
    if len(members) > MOST_MEMBERS:
        raise _refused(path, f"it has {len(members)} members")
    seen: set[str] = set()
    for member in members:
        name = member.filename
        parts = name.split("/")
        if not _NAME.fullmatch(name) or name.startswith("/") or {"", ".", ".."} & set(parts):
            raise _refused(path, f"the member {name[:80]!r} is no plain path")
        # torch's own reader does not tell names apart by their case.
        if name.lower() in seen:
            raise _refused(path, f"the member {name!r} is there twice")
        seen.add(name.lower())
    roots = {member.filename.partition("/")[0] for member in members}
    has_folder = len(roots) == 1 and all("/" in member.filename for member in members)
    return f"{roots.pop()}/" if has_folder else ""


def _check_sizes(path: Path, members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise if members are packed as PyTorch never does, or unpack to more than they can be."""
    for member in members:
        if member.flag_bits & _ENCRYPTED:
            raise _refused(path, f"the member {member.filename!r} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _refused(path, f"the member {member.filename!r} is compressed in an unusual way")
    stored = sum(m.file_size for m in members if m.compress_type == zipfile.ZIP_STORED)
    deflated = sum(m.file_size for m in members if m.compress_type == zipfile.ZIP_DEFLATED)
    if stored > size or deflated > MOST_DEFLATED_BYTES:
        raise _refused(path, f"its {size} bytes would unpack to {stored + deflated}")


def _damaged(path: Path, why: str) -> BadModelError:
    return BadModelError(f"{path} is cut short or damaged ({why}); copy or export it again")


def _refused(path: Path, why: str) -> BadModelError:
    return BadModelError(f"{path} is not opened: no PyTorch file looks like this ({why})")


MOST_PICKLE_BYTES = 64 << 20

_STORAGES = (
    "Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool",
    "ComplexFloat", "ComplexDouble", "QInt8", "QUInt8", "QInt32", "Untyped",
)  # fmt: skip
# What torch.save writes for tensors in lists, tuples and dicts. None of it runs code of the file.
_CONTAINERS = frozenset(
    {
        "collections OrderedDict",
        "torch Size",
        "torch device",
        "torch.storage UntypedStorage",
        "torch.storage TypedStorage",
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_tensor_v3",
        "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_qtensor",
        "torch.serialization _get_layout",
        *(
            f"torch {kind}_{scheme}"
            for kind in ("per_tensor", "per_channel")
            for scheme in ("affine", "symmetric")
        ),
        *(f"torch {kind}Storage" for kind in _STORAGES),
    }
)
# Ways to name a global that tensors never need, and that would take more than reading to follow.
_INDIRECT = frozenset({"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEWOBJ_EX"})


@dataclass(frozen=True)
class PickleContent:
    """The names that a pickle would import.

    `globals` are `module name` in order of appearance; `foreign` is the first that no container of
    tensors needs, None if there is none.
    """

    globals: tuple[str, ...]
    foreign: str | None

    @property
    def is_plain(self) -> bool:
        return self.foreign is None


def look_into(content: bytes, *, also: tuple[str, ...] = ()) -> PickleContent:
    """Read the opcodes of a pickle. `also` are starts of further globals that are allowed."""
    found: list[str] = []
    foreign: str | None = None
    strings: list[str] = []
    if len(content) > MOST_PICKLE_BYTES:
        return PickleContent((), "something of an absurd size")
    try:
        for opcode, argument, _ in pickletools.genops(content):
            name = None
            if opcode.name == "GLOBAL":
                name = str(argument)
            elif opcode.name in _INDIRECT:
                name = " ".join(strings[-2:]) if opcode.name == "STACK_GLOBAL" else opcode.name
            elif isinstance(argument, str):
                strings.append(argument)
            if name is None:
                continue
            found.append(name)
            is_known = name in _CONTAINERS or (bool(also) and name.startswith(also))
            if foreign is None and (opcode.name in _INDIRECT or not is_known):
                foreign = name.replace(" ", ".")
    except Exception as error:  # pickletools raises whatever its decoders raise
        return PickleContent(tuple(found), f"something unreadable ({error})")
    return PickleContent(tuple(found), foreign)
