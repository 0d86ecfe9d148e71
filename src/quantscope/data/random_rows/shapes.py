"""Give each input of a model the shape of a row: what the model leaves open is chosen or asked."""

from collections.abc import Mapping
from dataclasses import dataclass

from quantscope.data.wishes import LONE
from quantscope.errors import BadConfigError
from quantscope.model import Batching, Dim, Model, Port, find_batching

PICTURE_CHANNELS = (1, 3, 4)
PICTURE_RANK = 3
"""The dimensions of a picture, without its batch."""

_PICTURE_SIDE = 224
"""The usual size of pictures; it divides by 32, as networks of five halvings want."""
_STRIDE = 32
_LENGTH = 32
"""The length of a text or a series: most networks take any, and this one costs little."""
_SAMPLES = 512
"""The length of a waveform: short frames of speech have so many samples."""
_LENGTH_NAMES = ("seq", "token", "time", "frame", "length", "len", "step", "words", "text")


@dataclass(frozen=True)
class RowShapes:
    """The shape of a row of each input, without its batch; `batches` says where that stands.

    `chosen` are words for each open size that nobody gave.
    """

    shapes: Mapping[str, tuple[int, ...]]
    batches: Batching
    chosen: tuple[str, ...]


def find_shapes(model: Model, given: Mapping[str, tuple[int, ...]]) -> RowShapes:
    """Find the sizes of all inputs; raise one line for those that nothing fixes."""
    ports = model.inputs
    _check_given(model, given)
    named = _named_sizes(ports, given)
    batches = find_batching(ports, model.outputs)
    shapes: dict[str, tuple[int, ...]] = {}
    chosen: dict[str, None] = {}
    for place, port in enumerate(ports):
        whole, axis = _given_for(port, given), batches.axes[place]
        row = batches.row_shape(place, port)
        if whole is not None:
            shapes[port.name] = tuple(size for at, size in enumerate(whole) if at != axis)
            continue
        usual = {} if row is None else _usual_sizes(port, row)
        sizes: list[int] = []
        for at, dim in enumerate(row or ()):
            known = dim if isinstance(dim, int) else named.get(dim or "")
            if known is None and at in usual:
                known = _within(usual[at], *model.size_limits.get(str(dim), (None, None)))
                chosen[f"{dim or 'a size'} of {port.name} {known}"] = None
                if isinstance(dim, str) and dim:
                    named[dim] = known
            if known is not None:
                sizes.append(known)
        if row is None or len(sizes) < len(row):
            _ask(model, port, axis)
        shapes[port.name] = tuple(sizes)
    return RowShapes(shapes, batches, tuple(chosen))


def _given_for(port: Port, given: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    return given.get(port.name, given.get(LONE))


def _check_given(model: Model, given: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse shapes of inputs that are none, or that a fixed size forbids."""
    ports = {port.name: port for port in model.inputs}
    for name, whole in given.items():
        if name == LONE and len(ports) != 1:
            raise BadConfigError(
                f"{model.name} has {len(ports)} inputs ({', '.join(ports)}); say whose shape it "
                f"is, with --shape NAME={'x'.join(map(str, whole))}"
            )
        if name != LONE and name not in ports:
            raise BadConfigError(
                f"{model.name} has no input {name!r} for --shape; it has {', '.join(ports)}"
            )
        port = next(iter(ports.values())) if name == LONE else ports[name]
        fits = port.shape is None or (
            len(port.shape) == len(whole)
            and all(
                not isinstance(dim, int) or dim == size
                for dim, size in zip(port.shape, whole, strict=True)
            )
        )
        if not fits:
            raise BadConfigError(
                f"--shape {'x'.join(map(str, whole))} does not fit the input {port.name!r} of "
                f"{model.name}, which is {shape_text(port)}"
            )


def _named_sizes(ports: tuple[Port, ...], given: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Find the sizes of names in the shapes that were given: another input may have them too."""
    found: dict[str, int] = {}
    for port in ports:
        whole = _given_for(port, given)
        for dim, size in zip(port.shape or (), whole or (), strict=False):
            if isinstance(dim, str) and dim:
                found[dim] = size
    return found


def _usual_sizes(port: Port, row: tuple[Dim, ...]) -> dict[int, int]:
    """Give the usual sizes of what is open, by their place in the row."""
    places = [at for at, dim in enumerate(row) if not isinstance(dim, int)]
    sides = _picture_sides(port, row)
    if sides is not None:
        known = [row[at] for at in sides]
        largest = max((size for size in known if isinstance(size, int)), default=0)
        side = max(_PICTURE_SIDE, -(-largest // _STRIDE) * _STRIDE)
        return dict.fromkeys(sides, side)
    if len(row) == 1:
        return dict.fromkeys(places, _SAMPLES if port.dtype.startswith("float") else _LENGTH)
    names = {at: str(row[at] or "").lower() for at in places}
    return {
        at: _LENGTH
        for at, name in names.items()
        if any(part in name for part in _LENGTH_NAMES) and "past" not in name
    }


def _within(size: int, least: int | None, most: int | None) -> int:
    return min(max(size, least or 0), most or size)


def _picture_sides(port: Port, row: tuple[Dim, ...]) -> tuple[int, int] | None:
    """Say which two dimensions are height and width, if the row is a picture."""
    if len(row) != PICTURE_RANK or not port.dtype.startswith(("float", "uint8")):
        return None
    if row[0] in PICTURE_CHANNELS:
        return 1, 2
    return (0, 1) if row[2] in PICTURE_CHANNELS else None


def _ask(model: Model, port: Port, axis: int | None) -> None:
    if port.shape is None:
        example = "1x3x320x320"
    else:
        example = "x".join(
            str(dim if isinstance(dim, int) else 1 if at == axis else "N")
            for at, dim in enumerate(port.shape)
        )
    option = f"--shape {port.name}={example}"
    raise BadConfigError(
        f"The input {port.name!r} of {model.name} is {shape_text(port)}, and nothing says how "
        f"large the open sizes are; give {option} (with numbers), or rows with --data FILE.npz"
    )


def shape_text(port: Port) -> str:
    if port.shape is None:
        return "of a shape that the file does not state"
    sizes = (str(dim) if dim not in (None, "") else "?" for dim in port.shape)
    return f"[{', '.join(sizes)}]"
