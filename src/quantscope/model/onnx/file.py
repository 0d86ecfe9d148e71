"""This module opens an ONNX file and checks it before anything trusts it."""

import hashlib
import mmap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from quantscope.errors import BadModelError
from quantscope.files import check_file, check_memory
from quantscope.model.network import Port
from quantscope.model.onnx.checks import check_model, sort_nodes
from quantscope.model.onnx.limits import check_affordable, check_functions
from quantscope.model.onnx.operators import BLOCK_OPS, QDQ_OPS, QOPERATOR_OPS, RUN_TIME_OPS
from quantscope.model.onnx.tensors import (
    THIS_FILE,
    element_type,
    load_external,
    locate_tensors,
    shape_of,
)
from quantscope.model.onnx.wire import WireError, has_bad_text, without_weights

Format = Literal["float", "qdq", "qoperator", "mixed", "dynamic", "blocks"]

_MOST_BYTES = 2**31 - 1
"""The size of the largest message that protobuf has."""

_COPIES = 2
"""How often a model's weights are in memory at least while it runs: as read, and as laid out."""


@dataclass(frozen=True)
class OnnxFile:
    """A checked ONNX file. Weights stay on disk; nothing of it may be changed.

    `digest` is the SHA-256 of the file as `sha256sum` prints it; with external data it covers
    the data files too. `hollow` is the model with its large tensors left in the file: read its
    structure, not its weights, and do not save it. `load_proto` gives a whole model to change.
    """

    path: Path
    digest: str
    ir_version: int
    opset: int
    opsets: Mapping[str, int]
    producer: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    format: Format
    metadata: Mapping[str, str]
    external_files: tuple[Path, ...]
    hollow: onnx.ModelProto = field(repr=False, compare=False)

    @property
    def is_float(self) -> bool:
        """Say whether no operator quantizes or takes scales."""
        return self.format == "float"

    def check_float(self) -> None:
        """Refuse what is quantized already, for what quantizes."""
        if not self.is_float:
            raise BadModelError(
                f"{self.path} is quantized already ({self.format}); give the float model that it "
                "was made from"
            )

    def check_affordable(self) -> None:
        """Raise one line if no machine could run it; `inspect` and `graph` still show it."""
        _ = self._is_affordable
        check_memory(
            _COPIES * self._stored_bytes,
            f"Running {self.path.name}",
            "close other programs, or take a machine with more",
            kind=BadModelError,
        )

    @cached_property
    def _stored_bytes(self) -> int:
        with suppress(OSError):  # a file that is gone by now is told when it is read
            return sum(path.stat().st_size for path in (self.path, *self.external_files))
        return 0

    @cached_property
    def _is_affordable(self) -> bool:
        check_affordable(self.path, self.hollow)
        return True

    def load_proto(self) -> onnx.ModelProto:
        """Load a fresh copy of the whole model, all weights in memory, to be changed or run."""
        self.check_affordable()
        proto = onnx.load(self.path, load_external_data=False)
        load_external(self.path, proto)
        sort_nodes(proto.graph)
        return proto

    @cached_property
    def op_counts(self) -> Mapping[str, int]:
        """The number of nodes of each operator, subgraphs not entered."""
        counts: dict[str, int] = {}
        for node in self.hollow.graph.node:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        return MappingProxyType(dict(sorted(counts.items())))


def load_onnx(path: Path | str) -> OnnxFile:
    """Open and check an ONNX file; one line of `BadModelError` says what is wrong with it."""
    path = Path(path)
    _check_readable(path)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
    ):
        proto = _parse(path, content)
    # Before onnx's own checker, which would follow every call of a function.
    check_functions(path, proto)
    external_files = locate_tensors(path, proto)
    check_model(path, proto)
    graph = proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    return OnnxFile(
        path=path,
        digest=_digest(path, external_files),
        ir_version=proto.ir_version,
        opset=opsets.get("", opsets.get("ai.onnx", 0)),
        opsets=MappingProxyType(opsets),
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        inputs=tuple(port_of(value) for value in graph.input if value.name not in constants),
        outputs=tuple(port_of(value) for value in graph.output),
        format=_format(graph),
        metadata=MappingProxyType({entry.key: entry.value for entry in proto.metadata_props}),
        external_files=external_files,
        hollow=proto,
    )


def ends_in_softmax(file: OnnxFile) -> bool:
    """Tell whether the first output is probabilities already, seen through Q, DQ and Identity."""
    makers = {name: node for node in file.hollow.graph.node for name in node.output if name}
    name = file.outputs[0].name if file.outputs else ""
    see_through = QDQ_OPS | {"Identity", "Cast"}
    for _ in range(len(makers)):
        node = makers.get(name)
        if node is None or node.op_type not in see_through or not node.input:
            break
        name = node.input[0]
    node = makers.get(name)
    return node is not None and node.op_type in ("Softmax", "QLinearSoftmax")


def _check_readable(path: Path) -> None:
    size = check_file(path, "an .onnx file", kind=BadModelError)
    if size == 0:
        raise BadModelError(f"{path} is empty; it should be an ONNX model")
    if size > _MOST_BYTES:
        raise BadModelError(
            f"{path} has {size:,} bytes; an ONNX file has at most {_MOST_BYTES:,}, larger weights "
            "are kept in a file beside it"
        )


_OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive, perhaps a PyTorch .pt or .pt2 file"),
    (b"\x80\x02", "a Python pickle, perhaps an old PyTorch file"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89HDF", "an HDF5 file, perhaps a Keras model"),
    (b"\x1f\x8b", "gzip data"),
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with: git lfs pull"),
    (b"ORTM", "an .ort file of onnxruntime; give the .onnx model that it was made from"),
)


def _parse(path: Path, content: memoryview) -> onnx.ModelProto:
    """Parse the model without its large weights; say what else the file is if it is no ONNX."""
    head = bytes(content[:512])
    for start, kind in _OTHER_KINDS:
        if head.startswith(start) or head[4:8] == start:  # .ort files have their mark at byte 4
            raise BadModelError(f"{path} is not an ONNX model but {kind}")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(without_weights(content, location=THIS_FILE))
    except (WireError, DecodeError) as error:
        if head[:1] != b"\x08":  # not the ir_version that exporters write first
            raise BadModelError(f"{path} is not an ONNX model: {_first_bytes(head)}") from None
        reason = str(error) if isinstance(error, WireError) else "its fields do not parse"
        raise BadModelError(
            f"{path} is cut short or damaged ({reason}); copy or export it again"
        ) from None
    if has_bad_text(proto):
        raise BadModelError(f"{path} is damaged: a name in it is not valid text")
    if not proto.HasField("graph"):
        raise BadModelError(f"{path} is not an ONNX model: it holds no graph")
    return proto


def _first_bytes(head: bytes) -> str:
    if head.isascii() and b"\0" not in head:
        return "it is text"
    return f"it starts with the bytes {head[:8].hex(' ')}"


def _digest(path: Path, external_files: tuple[Path, ...]) -> str:
    """Compute the file's SHA-256 or, with external data, that of all files' digests in a row."""
    digests = []
    for part in (path, *external_files):
        try:
            with part.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256"))
        except OSError as error:
            raise BadModelError(f"Cannot read {part}: {error.strerror}") from None
    if len(digests) == 1:
        return digests[0].hexdigest()
    return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()


def port_of(value: onnx.ValueInfoProto) -> Port:
    kind = value.type.WhichOneof("value") or "tensor_type"
    # What is no tensor is named by what it is: a sequence, an optional, a map.
    is_tensor = kind == "tensor_type"
    return Port(
        name=value.name,
        dtype=element_type(value.type.tensor_type.elem_type)
        if is_tensor
        else kind.removesuffix("_type"),
        shape=shape_of(value.type),
    )


def _format(graph: onnx.GraphProto) -> Format:
    kinds = {node.op_type for node in graph.node}
    if not kinds.isdisjoint(RUN_TIME_OPS):
        return "dynamic"
    has_qoperator = not kinds.isdisjoint(QOPERATOR_OPS)
    if has_qoperator and kinds & (QOPERATOR_OPS | QDQ_OPS) <= BLOCK_OPS:
        return "blocks"
    has_qdq = any(node.op_type in QDQ_OPS for node in graph.node)
    if not has_qoperator:
        return "qdq" if has_qdq else "float"
    # Q and DQ at the borders belong to QOperator; dequantized constants are the QDQ way.
    return "mixed" if any(_dequantizes_constant(graph)) else "qoperator"


def _dequantizes_constant(graph: onnx.GraphProto) -> Iterator[bool]:
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    return (
        node.op_type == "DequantizeLinear" and not constants.isdisjoint(node.input[:1])
        for node in graph.node
    )
