"""Write edits into a page's address and read them from it."""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64Error
from hashlib import sha256
from threading import Lock

from quantscope.app.editing.history import Edits
from quantscope.edit import edit_from_dict, edit_to_dict
from quantscope.errors import BadConfigError

_LONGEST = 1500
"""Longer edits are kept by this process, and the address has their digest."""
_MOST_BYTES = 1 << 20
_MOST_KEPT = 32

_kept: dict[str, Edits] = {}
_lock = Lock()


def edits_to_address(edits: Edits) -> str:
    """Write edits as letters and digits; nothing where there are none."""
    if not edits:
        return ""
    told = json.dumps([edit_to_dict(edit) for edit in edits], separators=(",", ":"))
    text = urlsafe_b64encode(zlib.compress(told.encode(), 9)).decode().rstrip("=")
    if len(text) <= _LONGEST:
        return text
    name = "." + sha256(told.encode()).hexdigest()[:20]
    with _lock:
        _kept.pop(name, None)
        _kept[name] = edits
        while len(_kept) > _MOST_KEPT:
            _kept.pop(next(iter(_kept)))
    return name


def edits_from_address(text: str) -> Edits:
    """Read what `edits_to_address` wrote; what it cannot have written raises one line."""
    if not text:
        return ()
    if text.startswith("."):
        with _lock:
            if (found := _kept.get(text)) is not None:
                return found
        raise BadConfigError("The edits of this address are not kept any more")
    try:
        packed = urlsafe_b64decode(text[:_LONGEST] + "=" * (-len(text[:_LONGEST]) % 4))
        reader = zlib.decompressobj()
        told = json.loads(reader.decompress(packed, _MOST_BYTES))
    except (NotBase64Error, ValueError, zlib.error, RecursionError):
        raise BadConfigError("The edits of this address cannot be read") from None
    if not isinstance(told, list):
        raise BadConfigError("The edits of this address cannot be read")
    return tuple(edit_from_dict(each) for each in told)
