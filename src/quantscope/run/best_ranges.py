"""Find what every range of each activation of a network would cost, and which costs least.

The float network's values are counted once; whatever is asked of a range or of a number of bits
afterwards is computed from the counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from quantscope.arithmetic import (
    QuantParams,
    RangeError,
    RangeErrors,
    Spread,
    is_symmetric,
    range_errors,
    with_bits,
)
from quantscope.data import Samples, SamplesSource, samples_for
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import ModelSource, need_original, open_model
from quantscope.progress import Progress, silent
from quantscope.run.compare import Uncompared, why_missing
from quantscope.run.histograms import Histogram, float_histograms
from quantscope.run.runnable import open_runnable

SCHEMA_VERSION = 1


@dataclass(frozen=True, eq=False)
class BestRange:
    """The costs of ranges for one activation: mean squares of what is added to the float values.

    `errors.today` is the range that it has, `errors.candidates` are others from the narrowest to
    the widest, and `errors.best` costs least of all. `spread` is what they were computed from.
    """

    tensor: str
    layer: str | None
    params: QuantParams
    errors: RangeErrors
    spread: Spread = field(repr=False)

    @property
    def today(self) -> RangeError:
        return self.errors.today

    @property
    def best(self) -> RangeError:
        return self.errors.best

    @property
    def lowest(self) -> float:
        """The lowest value that was seen."""
        return self.spread.lowest

    @property
    def highest(self) -> float:
        """The highest value that was seen."""
        return self.spread.highest

    @property
    def gain_db(self) -> float:
        """How much smaller the error gets by the best range; 0 where today's is the best."""
        return self.errors.gain_db

    def at_bits(self, bits: int) -> "BestRange":
        """Give the same for another number of bits: `today` then is today's range with those."""
        params = with_bits(self.params, bits)
        # With few steps a zero-point may round to 0 that was none.
        errors = range_errors(self.spread, params, symmetric=is_symmetric(self.params))
        return replace(self, params=params, errors=errors)

    def to_dict(self) -> dict[str, Any]:
        return {
            "tensor": self.tensor,
            "layer": self.layer,
            "dtype": self.params.dtype,
            "bits": self.params.bits,
            "lowest": self.lowest,
            "highest": self.highest,
            "values": int(self.spread.values),
            "gain_db": self.gain_db,
            "today": _plain(self.today),
            "best": _plain(self.best),
            "candidates": [_plain(each) for each in self.errors.candidates],
        }


@dataclass(frozen=True, eq=False)
class BestRanges:
    """The ranges of a network's activations, in the order in which they were asked for.

    `unseen` are the activations that have none, and why.
    """

    model: str
    digest: str
    float_model: str
    float_digest: str
    data: str
    data_digest: str
    samples: int
    ranges: tuple[BestRange, ...]
    unseen: tuple[Uncompared, ...]
    provenance: Mapping[str, str]

    def __getitem__(self, tensor: str) -> BestRange:
        found = next((each for each in self.ranges if each.tensor == tensor), None)
        if found is not None:
            return found
        reason = why_missing(tensor, self.unseen, (each.tensor for each in self.ranges))
        raise BadModelError(f"No best range is known of {tensor} of {self.model}: {reason}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "digest": self.digest,
            "float_model": self.float_model,
            "float_digest": self.float_digest,
            "data": self.data,
            "data_digest": self.data_digest,
            "samples": self.samples,
            "ranges": [each.to_dict() for each in self.ranges],
            "unseen": [asdict(each) for each in self.unseen],
            "provenance": dict(self.provenance),
        }


def best_ranges(
    model: ModelSource,
    samples: SamplesSource,
    tensors: Sequence[str] | None = None,
    *,
    float_model: ModelSource | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> BestRanges:
    """Compute what each range would cost the activations of a quantized model; find the best.

    `tensors` are names of activations, or of layers for their outputs; None means all. The error is
    that of the float network's own values on `samples`: a range is chosen as a calibration would,
    one tensor at a time. Give samples that the result is not measured with. Memory does not grow
    with their number.
    """
    opened = open_model(model)
    chosen: Samples = samples_for(opened, samples)
    original = need_original(opened, float_model)
    quantized = open_runnable(opened, execution="reference", threads=1)
    floats = open_runnable(original, execution="reference", threads=1)
    counted = float_histograms(
        quantized, floats, chosen, tensors, threads=threads, batch=batch, progress=progress
    )
    found: list[BestRange] = []
    unseen = list(counted.unseen)
    for histogram in counted.tensors:
        try:
            found.append(_best_range(histogram))
        except BadConfigError as error:
            unseen.append(Uncompared(histogram.name, histogram.role, str(error)))
    return BestRanges(
        model=counted.model,
        digest=counted.digest,
        float_model=original.name,
        float_digest=original.digest,
        data=counted.data,
        data_digest=counted.data_digest,
        samples=counted.images,
        ranges=tuple(found),
        unseen=tuple(unseen),
        provenance=counted.provenance,
    )


def _best_range(histogram: Histogram) -> BestRange:
    if histogram.role != "activation":
        raise BadConfigError("It is stored, and no samples are needed for its range.")
    spread = histogram.spread
    errors = range_errors(spread, histogram.params)
    return BestRange(histogram.name, histogram.layer, histogram.params, errors, spread)


def _plain(found: RangeError) -> dict[str, float]:
    return {
        "low": found.low,
        "high": found.high,
        "rounding": found.rounding,
        "clipping": found.clipping,
        "total": found.total,
    }
