"""The protocol of a file that keeps its constants under names: what pairing reads of it.

Pairing compares weights, and never asks what kind of file they are in: a `Model` gives this where
its file has them, and None where it does not.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]

MOST_NUMBERS = 4096
"""Constants of more numbers are not read to be compared."""


class StoredConstants(Protocol):
    """The constants of a file, and the values that follow from them and from fixed shapes alone."""

    @property
    def known(self) -> Mapping[str, Array]:
        """The values that constants and shapes decide, by name."""

    def laid_out(self, name: str, stored: Array | None = None) -> Array | None:
        """Give a constant as its reader sees it, moved and reshaped as the file does it.

        It is begun from `stored` where that is given; None where the name is no constant's.
        """
