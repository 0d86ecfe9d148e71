"""Calibration samples that were prepared in another way than the data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quantscope.data import Samples
from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.input_stats import InputStats
from quantscope.diagnose.results import Finding, Place, Remedy

KIND = "preprocessing"
WHY = (
    "Ranges were found for inputs of another kind than those that the model is fed with, so they "
    "fit nowhere in the network."
)
# Photographs differ in brightness and contrast by less than that.
_TIMES = 8.0
_OFFSET_STDS = 1.0
# Colours of a set of photographs: red and blue lie so far apart, in deviations.
_COLOURS_STDS = 0.1
_FITS = 1 / 3


@dataclass(frozen=True)
class Mismatch:
    """How an input's calibration values differ from the data's, and what would make them alike."""

    seen: str
    numbers: dict[str, Any]
    what: str
    mend: Callable[[Any], Any]


def find(evidence: Evidence) -> Iterator[Finding]:
    """Hold each input's calibration values against those of the data."""
    found = dict(mismatches(evidence))
    if not found:
        return
    calibration = evidence.calibration
    assert calibration is not None
    places = tuple(Place(name, how.seen, how.numbers) for name, how in found.items())
    first = next(iter(found.values()))
    yield Finding(
        KIND,
        "The calibration samples look prepared in another way than these",
        WHY,
        places,
        (
            Remedy(
                f"calibrate with the same samples {first.what}",
                calibration=_mended(calibration, found),
            ),
        ),
        tensors=tuple(t.name for t, _ in evidence.activations),
    )


def mismatches(evidence: Evidence) -> Iterator[tuple[str, Mismatch]]:
    """Give the inputs that look prepared in two ways, each with how."""
    for name, data in evidence.data_inputs.items():
        known = evidence.calibration_inputs.get(name)
        how = None if known is None or known.mean.shape != data.mean.shape else _how(known, data)
        if how is not None:
            yield name, how


def _how(known: InputStats, data: InputStats) -> Mismatch | None:
    spans = known.high - known.low, data.high - data.low
    if min(spans) <= 0:
        return None
    times = spans[1] / spans[0]
    # One sample that lies far out stretches the ends of its set, and hardly the deviation.
    spread = float(data.std.mean() / max(known.std.mean(), 1e-30))
    ends = (
        f"the calibration samples lie in [{known.low:.4g}, {known.high:.4g}], these in "
        f"[{data.low:.4g}, {data.high:.4g}]"
    )
    numbers = {"calibration": [known.low, known.high], "data": [data.low, data.high]}
    if min(times, spread) > _TIMES or max(times, spread) < 1 / _TIMES:
        usual = 255.0 if 200 < times < 320 else 1 / 255 if 200 < 1 / times < 320 else None
        factor = usual or times
        word = f"times {factor:.4g}" if factor > 1 else f"divided by {1 / factor:.4g}"
        hint = ", as 0..1 and 0..255 do" if usual else ""
        return Mismatch(f"{ends}{hint}", {**numbers, "times": times}, word, lambda x: x * factor)
    std = float(np.mean((known.std + data.std) / 2))
    offset = data.mean - known.mean
    if std > 0 and np.abs(offset).min() > _OFFSET_STDS * std:
        # What a mean that was taken away on one side leaves: every channel is off.
        return Mismatch(
            f"{ends}; the means of the channels differ by {_list(offset)}, which looks like a mean "
            f"that only one side takes away",
            {**numbers, "mean_difference": offset.tolist()},
            f"with {_list(offset)} added",
            lambda x: x + offset.reshape(-1, *[1] * (x.ndim - 2)),
        )
    if len(offset) == 3 and std > 0:
        one, two = known.mean - known.mean.mean(), data.mean - data.mean.mean()
        apart, turned = float(np.abs(two - one).max()), float(np.abs(two - one[::-1]).max())
        if apart > _COLOURS_STDS * std and turned < _FITS * apart:
            return Mismatch(
                f"the means of the channels are {_list(known.mean)} in the calibration samples and "
                f"{_list(data.mean)} here, which fits in the opposite order (RGB and BGR)",
                {**numbers, "means": [known.mean.tolist(), data.mean.tolist()]},
                "with their channels in the opposite order",
                lambda x: x[:, ::-1],
            )
    return None


def _mended(calibration: Samples, found: dict[str, Mismatch]) -> Samples | None:
    """Prepare the calibration samples as the data seem to be; None where they are pictures."""
    if calibration.layout != "as-is":
        return None
    lone = next(iter(found.values())) if len(calibration.arrays) == 1 else None
    arrays = {}
    for name, array in calibration.arrays.items():
        how = found.get(name, lone)
        whole = np.asarray(array)
        arrays[name] = whole if how is None else how.mend(whole).astype(whole.dtype)
    return replace(calibration, name=f"{calibration.name}, mended", arrays=arrays)


def _list(values: Any) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
