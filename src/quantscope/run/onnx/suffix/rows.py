"""Put the outputs of batches together, as arrays whose rows are samples."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.errors import BadModelError
from quantscope.progress import Progress
from quantscope.run.measure import Outputs

Array = NDArray[Any]


def gather_rows(
    batches: Iterable[tuple[Mapping[str, Array], int, int]],
    samples: Samples,
    model: str,
    progress: Progress,
) -> Outputs:
    """Give the outputs that have a row for each sample; of each batch, its rows and samples."""
    found: dict[str, list[Array]] = {}
    left_out: dict[str, str] = {}
    done = 0
    for values, rows, count in batches:
        for name, value in values.items():
            # Where rows go in one by one, an output without a batch belongs to its row.
            part = value[None] if rows == 1 and value.shape[:1] != (1,) else value
            if part.shape[:1] != (rows,):
                left_out[name] = f"{name} has the shape {list(value.shape)} for {rows} rows"
                continue
            known = found.setdefault(name, [])
            if known and known[0].shape[1:] != part.shape[1:]:
                left_out[name] = f"the rows of {name} have different shapes"
            # A copy: onnxruntime's own array would hold on to all memory of its session.
            known.append(part[:count].copy())
        done += count
        progress("Evaluating", done, len(samples))
    given = {name: parts for name, parts in found.items() if name not in left_out}
    if left_out and not given:
        raise BadModelError(
            f"No output of {model} has a row for each sample: {'; '.join(left_out.values())}"
        )
    return {name: np.concatenate(parts) for name, parts in given.items()}
