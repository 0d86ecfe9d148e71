"""Make samples of random rows for a model."""

from collections.abc import Mapping

import numpy as np

from quantscope.data.intake import check_ports
from quantscope.data.random_rows.shapes import find_shapes
from quantscope.data.random_rows.values import choose_filling, fill_row
from quantscope.data.samples import Samples
from quantscope.errors import BadConfigError
from quantscope.files import check_memory
from quantscope.model import InputUse, Model

USUAL_ROWS = 32
_MOST_ROWS = 1_000_000
_USUAL_BYTES = 64 * 2**20
_FEWEST = 4
_UNUSED = InputUse()


def random_samples(
    model: Model,
    count: int | None = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
) -> Samples:
    """Make rows for all inputs of a model, 32 unless `count` says it, fewer if they are large.

    They are the same on every machine; of one seed, fewer rows are the first of more. `shapes` are
    whole shapes of inputs, batch and all, by name; the empty name is a lone input's.
    """
    if count is not None and not 1 <= count <= _MOST_ROWS:
        raise BadConfigError(f"{count:,} random rows were asked for; make 1 to {_MOST_ROWS:,}")
    check_ports(model.name, model.inputs)
    found = find_shapes(model, shapes or {})
    bytes_a_row = sum(
        int(np.prod(found.shapes[port.name])) * np.dtype(port.dtype).itemsize
        for port in model.inputs
    )
    if count is None:
        count = int(np.clip(_USUAL_BYTES // max(bytes_a_row, 1), _FEWEST, USUAL_ROWS))
    check_memory(count * bytes_a_row, f"{count:,} random rows for {model.name}")
    arrays, words = {}, []
    for place, port in enumerate(model.inputs):
        shape = found.shapes[port.name]
        use = model.input_uses.get(port.name, _UNUSED)
        filling = choose_filling(port, shape, use, found.shapes)
        rows = np.empty((count, *shape), np.dtype(port.dtype))
        # What has no batch is one for all rows of a batch, so it is the same in all.
        is_shared = found.batches.axes[place] is None and found.batches.fixed != 1
        for row in range(count):
            keys = (seed, place, 0 if is_shared else row)
            rows[row] = fill_row(port, shape, filling, use, keys)
        arrays[port.name] = rows
        words.append(f"{port.name} {list(shape)} {filling.words}")
    chosen = f"; chosen, as nothing fixes it: {', '.join(found.chosen)} (--shape)"
    return Samples(
        name=f"random rows (seed {seed})",
        arrays=arrays,
        targets=None,
        indices=np.arange(count, dtype=np.int64),
        class_names=(),
        layout="as-is",
        origin=f"{count:,} random rows (seed {seed}) made from the inputs' shapes: "
        f"{', '.join(words)}{chosen if found.chosen else ''}",
        is_random=True,
    )
