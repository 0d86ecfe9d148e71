"""Put together values that come batch by batch."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError

Array = NDArray[Any]


@dataclass
class SampleParts:
    """Arrays by name, a batch each, samples along the first axis."""

    unseen: dict[str, str] = field(default_factory=dict)
    """The arrays that have no such axis, and what they have instead."""
    _parts: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, name: str, value: Array, rows: int, count: int) -> None:
        """Add one batch. Its last `rows - count` rows are there to fill it up, and are dropped."""
        if value.ndim == 0 or value.shape[0] != rows:
            self.unseen[name] = (
                f"its first axis does not count images: its shape is {list(value.shape)} for a "
                f"batch of {rows}, so its values cannot be told apart by image"
            )
        else:
            self._parts.setdefault(name, []).append(value[:count])

    def join(self) -> dict[str, Array]:
        """Put the batches of each array together."""
        return {
            name: np.concatenate(parts)
            for name, parts in self._parts.items()
            if name not in self.unseen
        }

    def outputs(self, model: str) -> dict[str, Array]:
        """Put the model's outputs together; refuse a model with an output that has no such axis."""
        for name, why in self.unseen.items():
            raise BadModelError(f"{name}, an output of {model}, cannot be captured: {why}")
        return self.join()
