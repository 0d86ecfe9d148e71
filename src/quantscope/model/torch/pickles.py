"""This module finds what a pickle would import and call, without unpickling it."""

import pickletools
from dataclasses import dataclass

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
