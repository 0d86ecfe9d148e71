"""The protocol of two networks that run side by side, and of the sums between them.

A `JointRun` runs a float and a quantized network on the same batches. Beside every paired
activation it reduces rows of sums, a number for each sample and channel, where the data is: no
activation is carried into Python. `sums.py` says which rows there are, `statistics.py` what they
mean.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from numpy.typing import NDArray

from quantscope.data import Batch, Samples
from quantscope.model import Model, Network, Pairing, QuantTensor, TensorPair
from quantscope.run.compare.results import Comparison, ErrorSources, TensorComparison, Uncompared

if TYPE_CHECKING:
    from quantscope.run.measure import Outputs
    from quantscope.run.runnable import Runnable

Array = NDArray[Any]
Detail = Literal["sqnr", "full"]
Constants = tuple[dict[str, TensorComparison], list[Uncompared]]
"""The compared weights and biases by name, and those that could not be compared."""

ONLY_SQNR = "only the SQNR was asked for"


@dataclass(frozen=True)
class Probe:
    """A paired activation and what is measured of it.

    `leaves` are the quantized tensors that its layer reads. Its error is taken apart by sources
    unless `no_sources` says why not.
    """

    pair: TensorPair
    tensor: QuantTensor
    sum_names: tuple[str, ...]
    leaves: tuple[str, ...]
    no_sources: str | None
    known_sources: ErrorSources | None = None
    """The sources where nothing is measured: a layer that moves integers inherits all its error."""

    def by_sum(self, statistics: Array) -> Array:
        """Give the sums of a batch as [samples, sums, channels]."""
        return statistics.reshape(len(statistics), len(self.sum_names), -1)


@dataclass(frozen=True, eq=False)
class ProbeSums:
    """The sums of one probe for one batch, and how many numbers are behind them.

    `numbers` is None where only the SQNR was asked for.
    """

    probe: Probe
    statistics: Array
    numbers: int | None


@dataclass(frozen=True, eq=False)
class JointBatch:
    """The results of one batch: the outputs of both networks, and the sums between them.

    Both are by the quantized network's names, its first output first.
    """

    float_outputs: "Outputs"
    quantized_outputs: "Outputs"
    sums: tuple[ProbeSums, ...]


class JointRun(Protocol):
    """A float and a quantized network, ready to run side by side."""

    @property
    def quantized(self) -> "Runnable": ...

    @property
    def floats(self) -> Model: ...

    @property
    def network(self) -> Network:
        """The quantized network, in whose order and names the result is."""

    @property
    def pairing(self) -> Pairing: ...

    @property
    def detail(self) -> Detail: ...

    def batch_size(self, batch: int | None) -> int:
        """Give how many samples are run at once; `batch` is what was asked for."""

    def batches(self, samples: Samples, size: int) -> Iterator[Batch]: ...

    def start(self, samples: Samples, size: int, threads: int) -> AbstractContextManager[None]:
        """Be ready to run these samples in so many threads."""

    def run(self, batch: Batch) -> JointBatch:
        """Run one batch; any number of threads may do so at a time."""

    def unseen(self) -> Mapping[str, str]:
        """Give paired activations that could not be looked at, and why; after all batches."""

    def constants(self) -> Constants: ...

    def provenance(self) -> Mapping[str, str]: ...

    def is_told_by_digest(self) -> bool:
        """Say whether the float model can be the one whose digest the quantized one records."""

    def finish(self, result: Comparison) -> Comparison:
        """Put in what this framework knows better."""
