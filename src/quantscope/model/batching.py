"""How the rows of samples go into a model's inputs: which dimension of each counts them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quantscope.model.network import Dim, Port, Shape

_PICTURE_RANK = 4
"""The rank from which on the first dimension is a batch, whatever the outputs look like."""


@dataclass(frozen=True)
class Batching:
    """The dimension of each input that counts rows, None for one that has no such dimension.

    `fixed` is the only number of rows that the model takes at once, None where any number goes. It
    is 1 for a model with an input that has no batch, or has it in another place than the first:
    rows go into it one by one.
    """

    axes: tuple[int | None, ...]
    fixed: int | None

    def row_shape(self, place: int, port: Port) -> tuple[Dim, ...] | None:
        """Give the shape of one row of an input; None where not even its rank is known."""
        if port.shape is None:
            return None
        axis = self.axes[place]
        return tuple(dim for at, dim in enumerate(port.shape) if at != axis)


def find_batching(inputs: Sequence[Port], outputs: Sequence[Port]) -> Batching:
    """Find what counts rows by the shapes that the file states."""
    shapes = [port.shape for port in inputs]
    firsts = [shape[0] for shape in shapes if shape]
    # A name that stands first most often is the batch's, wherever it stands in the others.
    names = Counter(dim for dim in firsts if isinstance(dim, str))
    if names:
        return _of_name(shapes, names.most_common(1)[0][0], outputs)
    if None in firsts or (shapes and not firsts):
        return _one_by_one_if_fixed(shapes, [_place(shape, None) for shape in shapes])
    return _of_number(shapes, firsts, outputs)


def _of_name(shapes: Sequence[Shape | None], name: str, outputs: Sequence[Port]) -> Batching:
    if not _is_batch(shapes, name, outputs):
        return Batching((None,) * len(shapes), 1)
    return _one_by_one_if_fixed(shapes, [_place(shape, name) for shape in shapes])


def _one_by_one_if_fixed(shapes: Sequence[Shape | None], axes: Sequence[int | None]) -> Batching:
    """Take rows one by one where the batch of any input is fixed at 1, though others are open."""
    is_fixed = any(
        shape is not None and axis is not None and shape[axis] == 1
        for shape, axis in zip(shapes, axes, strict=True)
    )
    return _joined(axes, 1 if is_fixed else None)


def _place(shape: Shape | None, name: str | None) -> int | None:
    """Find the dimension of a shape that is the batch: by its name, or the first if it is open."""
    if shape is None:
        return 0
    if name in shape and name is not None:
        return shape.index(name)
    if shape and (not isinstance(shape[0], int) or shape[0] == 1):
        return 0
    # Where no batch has a name, the only open dimension of a state is its batch.
    is_open = [at for at, dim in enumerate(shape) if dim is None]
    return is_open[0] if name is None and len(is_open) == 1 else None


def _of_number(
    shapes: Sequence[Shape | None], firsts: Sequence[Dim], outputs: Sequence[Port]
) -> Batching:
    """Choose among fixed sizes: 1 is always a batch, another only if it is that of all."""
    if 1 in firsts:
        return _joined([_index(shape, 1) for shape in shapes], 1)
    size = firsts[0] if firsts else None
    if not isinstance(size, int) or not _is_batch(shapes, size, outputs):
        return Batching((None,) * len(shapes), 1)
    axes = tuple(_index(shape, size) for shape in shapes)
    if any(axis not in (0, None) for axis in axes):
        return Batching((None,) * len(shapes), 1)
    return Batching(axes, size)


def _index(shape: Shape | None, size: int) -> int | None:
    if shape is None:
        return 0
    return shape.index(size) if size in shape else None


def _joined(axes: Sequence[int | None], fixed: int | None) -> Batching:
    return Batching(tuple(axes), fixed if all(axis == 0 for axis in axes) else 1)


def _is_batch(shapes: Sequence[Shape | None], dim: Dim, outputs: Sequence[Port]) -> bool:
    """Say whether a first dimension counts rows, and is not the length of one only row."""
    if any(shape is None or len(shape) >= _PICTURE_RANK for shape in shapes):
        return True
    known = [port.shape for port in outputs if port.shape]
    if not known or any(dim in shape for shape in known):
        return True
    # What the file does not say of its outputs leaves it open; a lone vector is rather a row.
    is_open = any(not isinstance(size, int) for shape in known for size in shape)
    return is_open and any(shape is not None and len(shape) > 1 for shape in shapes)
