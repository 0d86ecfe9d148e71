"""This module writes many integers as a line of text, for edits that set a whole tensor."""

import base64
import binascii
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TYPES = ("int8", "int16", "int32")


def pack_integers(integers: ArrayLike) -> str:
    """Write integers in C order as `int8:TEXT`: the smallest type, compressed, in base64."""
    flat = np.asarray(integers).astype(np.int64).ravel()
    low, high = (int(flat.min()), int(flat.max())) if flat.size else (0, 0)
    for name in _TYPES:
        ends = np.iinfo(name)
        if ends.min <= low and high <= ends.max:
            content = flat.astype(np.dtype(name).newbyteorder("<")).tobytes()
            return f"{name}:{base64.b64encode(zlib.compress(content, 9)).decode('ascii')}"
    raise ValueError(f"integers from {low} to {high} do not fit int32")


def unpack_integers(text: str, size: int) -> NDArray[Any]:
    """Read so many integers; raise `ValueError` with half a line for anything else."""
    name, _, coded = text.partition(":")
    if name not in _TYPES:
        raise ValueError(f"they begin with {name[:10]!r}, not one of: {', '.join(_TYPES)}")
    kind = np.dtype(name).newbyteorder("<")
    wanted = size * kind.itemsize
    try:
        # No more is unpacked than is asked for, whatever the text may hold.
        reader = zlib.decompressobj()
        content = reader.decompress(base64.b64decode(coded, validate=True), wanted + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"they are no compressed base64 ({error})") from None
    if len(content) != wanted:
        more = "more" if len(content) > wanted else f"{len(content) // kind.itemsize}"
        raise ValueError(f"{size} integers are wanted, and they hold {more}")
    return np.frombuffer(content, kind).astype(np.int64)
