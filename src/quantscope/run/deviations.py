"""How far a model's outputs lie from the float model's: each output, and each sample of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import sqnr_db_of_energies, sqnr_db_of_values
from quantscope.errors import BadModelError
from quantscope.run.outputs import Array, Outputs, row_chunks

WORST = 5
"""The samples of an output that are named."""

_VALUES_AT_ONCE = 1 << 20
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class WorstSample:
    """One of an output's worst rows, by its index in the full set; its SQNR in dB."""

    index: int
    sqnr_db: float | None
    largest_difference: float


@dataclass(frozen=True)
class OutputDeviation:
    """One output of all samples against the float model's.

    `sqnr_db` is 20 log10(|f| / |f - q|); None where the two are the same (`exact`), where the float
    model gives nothing but zeros, and where a value is not finite. `worst` are the samples with the
    lowest ratio of their own, the worst first; samples without an error are not among them.
    """

    name: str
    shape: tuple[int, ...]
    sqnr_db: float | None
    cosine: float | None
    largest_difference: float | None
    exact: bool
    not_finite: int
    """The samples with a value that is not finite, in either model; they are left out."""
    worst: tuple[WorstSample, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def match_floats(outputs: Outputs, floats: Outputs, *, model: str, float_model: str) -> Outputs:
    """Give the float model's outputs by the other one's names, of those that both have.

    They go by name, or where no name is shared by place. What has another shape is refused.
    """
    shared = {name: floats[name] for name in outputs if name in floats}
    if not shared:
        shared = dict(zip(outputs, floats.values(), strict=False))
    for name, theirs in shared.items():
        if theirs.shape != outputs[name].shape:
            raise BadModelError(
                f"The output {name!r} of {model} has the shape {list(outputs[name].shape)}, that "
                f"of {float_model} {list(theirs.shape)}; give the float model that it was made from"
            )
    return shared


def row_energies(
    floats: Array, outputs: Array, rows: slice
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the sums of f² and of (q - f)² of each row, in float64."""
    f, q = (np.asarray(v[rows], np.float64).reshape(len(v[rows]), -1) for v in (floats, outputs))
    with np.errstate(invalid="ignore", over="ignore"):
        return (f * f).sum(axis=1), ((q - f) ** 2).sum(axis=1)


def ratio_db(signal: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give 10 log10(signal / error); NaN where either is zero or not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 10 * np.log10(signal / error)
    return np.where((signal > 0) & (error > 0) & np.isfinite(ratio), ratio, np.nan)


def deviations(
    outputs: Outputs, floats: Outputs, indices: NDArray[np.int64]
) -> tuple[OutputDeviation, ...]:
    """Compare the outputs that both have; `floats` go by the same names."""
    found = []
    for name, theirs in floats.items():
        keeper = DeviationKeeper(name)
        for rows in row_chunks({name: theirs}):
            keeper.add(theirs[rows], outputs[name][rows])
        found.append(keeper.finish(indices))
    return tuple(found)


class DeviationKeeper:
    """Adds up how far an output lies from the float model's, as rows come: five sums a row."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._shape: tuple[int, ...] = ()
        self._parts: list[NDArray[np.float64]] = []

    def add(self, floats: Array, outputs: Array) -> None:
        """Add the next rows of both models; their shapes are the same."""
        self._shape = floats.shape[1:]
        f, q = (np.asarray(v, np.float64).reshape(len(v), -1) for v in (floats, outputs))
        with np.errstate(invalid="ignore", over="ignore"):
            away = q - f
            sums = [(a * b).sum(axis=1) for a, b in ((f, f), (away, away), (q, q), (f, q))]
            largest = np.abs(away).max(axis=1, initial=0.0)
        self._parts.append(np.stack([*sums, largest]))

    def finish(self, indices: NDArray[np.int64]) -> OutputDeviation:
        """Give what the sums mean; `indices` are the rows' numbers in the full set."""
        energy, error, own, both, largest = np.concatenate(self._parts, axis=1)
        finite = np.isfinite(energy) & np.isfinite(error)
        signal, noise = float(energy[finite].sum()), float(error[finite].sum())
        norms = np.sqrt(signal * float(own[finite].sum()))
        by_row = ratio_db(energy, error)
        order = [row for row in np.argsort(by_row, kind="stable") if finite[row] and error[row] > 0]
        return OutputDeviation(
            name=self.name,
            shape=self._shape,
            sqnr_db=sqnr_db_of_energies(signal, noise),
            cosine=float(both[finite].sum() / norms) if norms > 0 else None,
            largest_difference=float(largest[finite].max()) if finite.any() else None,
            exact=bool(finite.all()) and noise == 0,
            not_finite=int((~finite).sum()),
            worst=tuple(
                WorstSample(
                    index=int(indices[row]),
                    sqnr_db=float(by_row[row]) if np.isfinite(by_row[row]) else None,
                    largest_difference=float(largest[row]),
                )
                for row in order[:WORST]
            ),
        )


def sqnr_of_outputs(floats: Outputs, outputs: Outputs, rows: NDArray[np.bool_]) -> float | None:
    """Give the SQNR in dB of all outputs together over these rows; None where it is no number.

    `floats` go by the same names.
    """
    if len(floats) == 1:
        ((name, theirs),) = floats.items()
        if theirs.size <= _VALUES_AT_ONCE:
            return sqnr_db_of_values(theirs[rows], outputs[name][rows])
    signal = error = 0.0
    for name, theirs in floats.items():
        for part in row_chunks({name: theirs}):
            of_floats, of_error = row_energies(theirs, outputs[name], part)
            signal += float(of_floats[rows[part]].sum())
            error += float(of_error[rows[part]].sum())
    return sqnr_db_of_energies(signal, error)


def divergences(floats: Array, scores: Array, *, probabilities: bool) -> NDArray[np.float64]:
    """Give each row's Kullback-Leibler divergence from the float model's classes, in nats."""
    with np.errstate(invalid="ignore", over="ignore"):
        f, q = (
            log_probabilities(np.asarray(each, np.float64), probabilities=probabilities)
            for each in (floats, scores)
        )
        return np.asarray((np.exp(f) * (f - q)).sum(axis=1))


def log_probabilities(scores: NDArray[np.float64], *, probabilities: bool) -> NDArray[np.float64]:
    """Give the logarithms of a softmax, or of what is one already."""
    if probabilities:
        # A probability that underflowed, or was rounded to zero, is not impossible.
        return np.asarray(np.log(np.maximum(scores, _TINY)))
    # Without the shift, exp of a large logit overflows.
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def range_of(array: Array) -> tuple[float, float] | None:
    """Give the least and the largest finite value; None where none is."""
    low, high = np.inf, -np.inf
    for part in row_chunks({"": array}):
        values = np.asarray(array[part])
        finite = values[np.isfinite(values)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return None if low > high else (low, high)


def output_facts(outputs: Outputs) -> list[Mapping[str, Any]]:
    """Give each output's name, shape of a row, type and range."""
    facts: list[Mapping[str, Any]] = []
    for name, array in outputs.items():
        ends = range_of(array)
        facts.append(
            {
                "name": name,
                "shape": list(array.shape[1:]),
                "dtype": str(array.dtype),
                "lowest": None if ends is None else ends[0],
                "highest": None if ends is None else ends[1],
            }
        )
    return facts
