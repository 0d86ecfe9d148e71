"""The protocol of an object that reads the inner values of a network, batch by batch."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from quantscope.run.intake import Feeds

Array = NDArray[Any]


class ValueReader(Protocol):
    """Reads the integers of quantized activations without changing what runs.

    `seen` are the names of those that can be read. `unseen` has a reason for each of the others; it
    is complete when all batches are read, since only then it is known that looking changed nothing.
    """

    @property
    def seen(self) -> Sequence[str]: ...

    @property
    def unseen(self) -> Mapping[str, str]: ...

    def read(self, feeds: Feeds) -> Mapping[str, Array]:
        """Give the integers of one batch, by the tensors' names."""
