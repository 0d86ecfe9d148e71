"""This module finds where a model's tensors are, and checks that their bytes are there."""

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import onnx
import onnx_ir as ir

from quantscope.errors import BadModelError
from quantscope.files import check_file, is_there
from quantscope.model.network import Dim, Shape

# Far beyond any memory; a shape past it is an error or an attack, not a model.
MOST_ELEMENTS = 2**40

_KNOWN_TYPES = frozenset(member.value for member in ir.DataType) - {ir.DataType.UNDEFINED.value}


def element_type(code: int) -> str:
    """Name an ONNX element type as it is called here: `int8`, `float32`, `float8e4m3fn`."""
    if code not in _KNOWN_TYPES:
        return "unknown"
    name = ir.DataType(code).name.lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def element_bits(code: int) -> int | None:
    """Count the bits that one element takes in a file; None for strings."""
    if code == onnx.TensorProto.STRING:
        return None
    return int(ir.DataType(code).bitwidth)


THIS_FILE = "<this file>"
"""The location of tensors that `wire.py` has left in the model's own file."""

OPEN_DIMENSION = -1  # what some exporters write where others give a symbol


def shape_of(type_proto: onnx.TypeProto) -> Shape | None:
    """Give a value's shape; None where the rank is unknown or the value is not a tensor."""
    if not type_proto.tensor_type.HasField("shape"):
        return None
    return tuple(_dim(dim) for dim in type_proto.tensor_type.shape.dim)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value != OPEN_DIMENSION:
        return dim.dim_value
    return dim.dim_param or None


def is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def external_range(tensor: onnx.TensorProto) -> tuple[str, int, int | None]:
    """Read location, offset and length (None: to the end) as the file states them, unchecked."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    length = entries.get("length")
    return (
        entries.get("location", ""),
        int(entries.get("offset", "0")),
        None if length is None else int(length),
    )


def external_path(model: Path, location: str) -> Path:
    """Find the data file, which must lie in the model's folder or below it, links followed."""
    if location in (THIS_FILE, model.name):
        return model.resolve()
    folder = model.parent.resolve()
    try:
        path = (folder / location).resolve()
        path.stat()
    except (FileNotFoundError, PermissionError):
        pass  # which is said where it is read
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, a loop of links
        shown = f"{location[:40]}..." if len(location) > 40 else location
        raise BadModelError(
            f"{model} wants external data at {shown!r}, which cannot be a file"
        ) from None
    if not location or Path(location).is_absolute() or not path.is_relative_to(folder):
        raise BadModelError(
            f"{model} wants external data at {location!r}, outside its own folder; "
            "put the data file beside the model"
        )
    return path


def locate_tensors(model: Path, proto: onnx.ModelProto) -> tuple[Path, ...]:
    """Check that every constant's bytes are there; give the external data files, sorted."""
    sizes: dict[Path, int] = {}
    for tensor in _all_tensors(proto):
        count = _check_shape(model, f"The constant {tensor.name!r}", tuple(tensor.dims))
        if tensor.data_type not in _KNOWN_TYPES:
            raise BadModelError(
                f"The constant {tensor.name!r} in {model} has the unknown type {tensor.data_type}"
            )
        bits = element_bits(tensor.data_type)
        if is_external(tensor):
            _check_external(model, tensor, count, bits, sizes)
        else:
            _check_inline(model, tensor, count, bits)
    for value in (*proto.graph.input, *proto.graph.output):
        shape = shape_of(value.type) or ()
        _check_shape(model, f"{value.name!r}", tuple(dim for dim in shape if isinstance(dim, int)))
    return tuple(sorted(sizes.keys() - {model.resolve()}))


def load_external(model: Path, proto: onnx.ModelProto) -> None:
    """Bring constants that `locate_tensors` has checked into memory.

    onnx's own loader does the same, but refuses files that have a second name.
    """
    for tensor in _all_tensors(proto):
        if is_external(tensor):
            location, offset, _ = external_range(tensor)
            count = -(-prod(tensor.dims) * (element_bits(tensor.data_type) or 0) // 8)
            with external_path(model, location).open("rb") as file:
                file.seek(offset)
                tensor.raw_data = file.read(count)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


def _check_shape(model: Path, what: str, dims: tuple[int, ...]) -> int:
    """Count the elements of a shape; raise if it is negative or absurd."""
    if any(dim < 0 for dim in dims):
        raise BadModelError(f"{what} in {model} has the negative dimension {min(dims)}")
    if len(dims) > 64 or prod(max(dim, 1) for dim in dims) > MOST_ELEMENTS:
        shown = f"{list(dims)}" if len(dims) <= 8 else f"of {len(dims)} dimensions"
        raise BadModelError(f"{what} in {model} has the absurd shape {shown}")
    return prod(dims)


def _check_external(
    model: Path, tensor: onnx.TensorProto, count: int, bits: int | None, sizes: dict[Path, int]
) -> None:
    """Check a constant's place in a data file, whose size goes into `sizes`."""
    try:
        location, offset, length = external_range(tensor)
    except ValueError:
        raise BadModelError(
            f"The constant {tensor.name!r} in {model} has an unreadable external data offset"
        ) from None
    path = external_path(model, location)
    if bits is None:
        raise BadModelError(
            f"The constant {tensor.name!r} in {model} keeps strings as external data"
        )
    if not is_there(path):
        raise BadModelError(
            f"{model} keeps weights in {location!r}, which is missing; put it beside the model"
        )
    needed = -(-count * bits // 8)
    if path not in sizes:
        sizes[path] = check_file(path, f"the weights of {model}", BadModelError)
    size = sizes[path]
    if offset < 0 or (length is not None and length != needed) or offset + needed > size:
        raise BadModelError(
            f"The constant {tensor.name!r} in {model} needs {needed} bytes, but its place in "
            f"{location!r} holds {size - offset if length is None else length}"
        )


def _check_inline(model: Path, tensor: onnx.TensorProto, count: int, bits: int | None) -> None:
    if tensor.HasField("raw_data"):
        found = len(tensor.raw_data)
        needed = 0 if bits is None else -(-count * bits // 8)
    else:
        found = (
            len(tensor.float_data)
            + len(tensor.int32_data)
            + len(tensor.int64_data)
            + len(tensor.double_data)
            + len(tensor.uint64_data)
            + len(tensor.string_data)
        )
        if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
            needed = 2 * count  # the real and the imaginary part
        else:
            needed = count if bits is None or bits >= 8 else -(-count * bits // 8)
    if found != needed:
        unit = "bytes" if tensor.HasField("raw_data") else "numbers"
        raise BadModelError(
            f"The constant {tensor.name!r} in {model} has the shape {list(tensor.dims)}, "
            f"which needs {needed} {unit}, but holds {found}"
        )


def _all_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors(proto.graph)
    for function in proto.functions:
        yield from _tensors_of(function.node)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    yield from _tensors_of(graph.node)


def _tensors_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in subgraphs(attribute):
                yield from _tensors(inner)


def subgraphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """List the graphs that an attribute holds, such as the branches of an If."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs
