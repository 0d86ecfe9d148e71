"""This module parses an ONNX file without its weights.

Protobuf copies every byte it parses. A model of several hundred MB is nearly all weights, so the
large `raw_data` fields are cut out of the bytes first and become references to their place in
the file (ONNX "external data" that points at the model itself), from where they can be
memory-mapped when somebody asks for them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]

INLINE_BYTES = 1024
"""The largest `raw_data` that stays in the message: small constants are looked at anyway."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Field numbers of onnx.proto on the way to a tensor's raw_data.
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_TENSOR: Mapping[int, object] = {}
_ATTRIBUTE = {5: _TENSOR}
_NODE = {5: _ATTRIBUTE}
_GRAPH = {1: _NODE, 5: _TENSOR}
_MODEL = {7: _GRAPH}


class WireError(ValueError):
    """The bytes are not a protobuf message, or end in the middle of one."""


class _Field(NamedTuple):
    """A field of a message: its number, wire type, and where it, its value and its end are."""

    number: int
    kind: int
    start: int
    value: int
    end: int


def without_weights(content: memoryview, *, location: str) -> bytes:
    """Give the serialized model, each large `raw_data` replaced by its offset in `location`."""
    return b"".join(_rewrite(content, 0, len(content), _MODEL, location))


def has_bad_text(message: Message) -> bool:
    """Tell whether a string is not UTF-8: protobuf hands it out as bytes, which nobody expects."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == field.TYPE_STRING and any(isinstance(text, bytes) for text in values):
            return True
        if field.message_type is not None and any(has_bad_text(inner) for inner in values):
            return True
    return False


def _rewrite(
    content: memoryview, start: int, end: int, inside: Mapping[int, object], location: str
) -> Iterator[bytes]:
    """Give the bytes of a message anew; `inside` are the fields that lead to tensors."""
    if inside is _TENSOR:
        yield from _rewrite_tensor(content, start, end, location)
        return
    for field in _fields(content, start, end):
        child = inside.get(field.number) if field.kind == _BYTES else None
        if isinstance(child, Mapping) and field.end - field.value > INLINE_BYTES:
            body = b"".join(_rewrite(content, field.value, field.end, child, location))
            yield _varint(field.number << 3 | _BYTES) + _varint(len(body)) + body
        else:
            yield bytes(content[field.start : field.end])


def _rewrite_tensor(content: memoryview, start: int, end: int, location: str) -> Iterator[bytes]:
    fields = list(_fields(content, start, end))
    raw = [field for field in fields if field.number == _RAW_DATA]
    is_external = any(field.number in (_EXTERNAL_DATA, _DATA_LOCATION) for field in fields)
    if is_external or len(raw) != 1 or raw[0].end - raw[0].value <= INLINE_BYTES:
        yield bytes(content[start:end])
        return
    for field in fields:
        if field is not raw[0]:
            yield bytes(content[field.start : field.end])
    reference = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (
        ("location", location),
        ("offset", str(raw[0].value)),
        ("length", str(raw[0].end - raw[0].value)),
    ):
        reference.external_data.add(key=key, value=value)
    yield reference.SerializeToString()


def _fields(content: memoryview, start: int, end: int) -> Iterator[_Field]:
    """Walk over the fields of a message, without copying or entering any."""
    position = start
    while position < end:
        tag, value = _read_varint(content, position, end)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, after = _read_varint(content, value, end)
        elif kind == _BYTES:
            length, value = _read_varint(content, value, end)
            after = value + length
        elif kind in (_FIXED32, _FIXED64):
            after = value + (4 if kind == _FIXED32 else 8)
        else:
            raise WireError(f"byte {position} starts a field of the unknown kind {kind}")
        if after > end:
            raise WireError(f"it ends {after - end} bytes early")
        if number == 0:
            raise WireError(f"byte {position} starts a field without a number")
        yield _Field(number, kind, position, value, after)
        position = after


def _read_varint(content: memoryview, position: int, end: int) -> tuple[int, int]:
    """Read a number of 7 bits a byte, the lowest first; give it and the position after it."""
    number = 0
    for place in range(10):
        if position >= end:
            raise WireError("it ends in the middle of a number")
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return number, position
    raise WireError(f"byte {position - 10} starts a number of more than ten bytes")


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
