"""This module says what a network's graph tells of the values that an input may hold."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InputUse:
    """The use that a network makes of one input; None and empty where the graph does not say.

    `ids_below`: it is looked up in a table, or made one-hot, and its values are 0 to one less than
    this. `compared_with` are constants that it is compared with, such as the sample rates that an
    audio network knows. `lowest` and `highest` are the ends of the quantizer that reads it first.
    """

    ids_below: int | None = None
    compared_with: tuple[float, ...] = ()
    lowest: float | None = None
    highest: float | None = None
