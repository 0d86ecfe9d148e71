"""The map of scores by the bits of weights and activations, as a value."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from quantscope.edit import RangeRule
from quantscope.run import Origin

SCHEMA_VERSION = 1

Width = int | None
"""A number of bits; None is float."""


@dataclass(frozen=True)
class BitCell:
    """The score with so many bits for all weights and for all activations.

    `delta` is the score minus the float network's on the same samples, with its paired interval;
    None where no sample has a number in both, or there is a single one. `reason` says why there is
    no score. `weight_bytes` counts the weights' own bits, not how a file stores them.
    """

    weights: Width
    activations: Width
    score: float | None
    interval_95: tuple[float, float] | None
    delta: float | None
    delta_interval_95: tuple[float, float] | None
    weight_bytes: int
    reason: str | None = None

    @property
    def label(self) -> str:
        return label_of(self.weights, self.activations)


def label_of(weights: Width, activations: Width) -> str:
    """Name a cell as papers do: W4A8, with `float` for what is not quantized."""
    return "".join(
        f"{letter}{'float' if bits is None else bits}"
        for letter, bits in (("W", weights), ("A", activations))
    )


@dataclass(frozen=True, eq=False)
class Measured(Origin):
    """The measurement of a network, and how it was made: the same in every study of bits.

    `unit` is what scores count in, "share" or "dB". `ranges` says how other widths get theirs, and
    `range_data` which samples activations were seen with for it, None where ranges stay.
    """

    samples: int
    sample_word: str
    measure: str
    unit: str
    higher_is_better: bool
    interval_of: str
    provenance: Mapping[str, str]
    ranges: RangeRule = field(default="keep", kw_only=True)
    range_data: str | None = field(default=None, kw_only=True)

    def facts(self) -> dict[str, Any]:
        """Give these fields alone, as plain values."""
        found = {each.name: getattr(self, each.name) for each in fields(Measured)}
        return {**found, "provenance": dict(self.provenance)}


@dataclass(frozen=True, eq=False)
class BitMap(Measured):
    """The cells of all pairs of widths, float as the last row and column."""

    weights: tuple[Width, ...]
    activations: tuple[Width, ...]
    cells: tuple[BitCell, ...]
    damaged: tuple[str, ...] = ()

    def cell(self, weights: Width, activations: Width) -> BitCell:
        return next(c for c in self.cells if (c.weights, c.activations) == (weights, activations))

    def rows(self) -> Iterator[tuple[Width, tuple[BitCell, ...]]]:
        """Give the cells by the bits of the weights."""
        for bits in self.weights:
            yield bits, tuple(self.cell(bits, other) for other in self.activations)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            **self.facts(),
            "weights": list(self.weights),
            "activations": list(self.activations),
            "cells": [{**asdict(cell), "label": cell.label} for cell in self.cells],
            "damaged": list(self.damaged),
        }
