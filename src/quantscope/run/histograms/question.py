"""The tensors that histograms are asked for, how each is counted, and the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Batch, Feeds, Samples
from quantscope.model import Network, QuantTensor
from quantscope.model.pairing import Pairing, TensorPair, constants_of, pair_networks
from quantscope.run.compare import Uncompared
from quantscope.run.histograms.results import Histogram, Histograms, SeriesName
from quantscope.run.histograms.series import Counting, Tally, choose_counting
from quantscope.run.runnable import Runnable

Array = NDArray[Any]

Tallies = dict[SeriesName, Tally]

BINS = 512
_VALUES_A_BATCH = 1 << 19
_LARGEST_BATCH = 256
_NO_FLOAT_MODEL = "no float model was given"


@dataclass(frozen=True)
class Question:
    """The tensors that are asked for; `countings` has those for which the network must run.

    `counterparts` has each tensor's pair in the float network, or the reason why it has none.
    """

    network: Network
    float_network: Network | None
    wanted: tuple[QuantTensor, ...]
    counterparts: Mapping[str, tuple[TensorPair | None, str | None]]
    countings: tuple[Counting, ...]

    @classmethod
    def of(
        cls, quantized: Runnable, floats: Runnable | None, names: Sequence[str] | None
    ) -> "Question":
        """Find the tensors: a layer's name stands for its output, None for all activations."""
        network = quantized.network
        float_network = None if floats is None else floats.network
        pairing = None if floats is None else _pair(floats, quantized)
        wanted = {tensor.name: tensor for tensor in _found(network, names)}
        counterparts = {
            name: _counterpart(tensor, pairing, floats) for name, tensor in wanted.items()
        }
        countings = [
            choose_counting(t, *counterparts[t.name]) for t in wanted.values() if not t.has_data
        ]
        return cls(network, float_network, tuple(wanted.values()), counterparts, tuple(countings))

    @property
    def batch(self) -> int:
        """The number of images that keeps the largest tensor of a batch near 524,288 values."""
        shapes = [each.tensor.shape or () for each in self.countings]
        sizes = [prod(d for d in shape[1:] if isinstance(d, int)) for shape in shapes]
        return int(np.clip(_VALUES_A_BATCH // max(1, 1, *sizes), 1, _LARGEST_BATCH))

    def answer(
        self,
        sums: Mapping[str, Tallies],
        unseen: Mapping[str, str],
        images: Samples,
        quantized: Runnable,
        *,
        bins: int,
    ) -> Histograms:
        """Make histograms of what was counted."""
        counted = [each for each in self.countings if each.tensor.name in sums]
        seen = {each.tensor.name: each.histogram(sums[each.tensor.name], bins) for each in counted}
        for tensor in self.wanted:
            if tensor.has_data:
                counterpart = self.counterparts[tensor.name]
                seen[tensor.name] = weight_histogram(tensor, *counterpart, bins=bins)
        floats = self.float_network
        return Histograms(
            model=self.network.path.name,
            digest=self.network.digest,
            float_model=None if floats is None else floats.path.name,
            float_digest=None if floats is None else floats.digest,
            execution=quantized.execution,
            data=images.name,
            data_digest=images.digest,
            images=len(images),
            tensors=tuple(seen[t.name] for t in self.wanted if t.name not in unseen),
            unseen=tuple(Uncompared(name, "activation", why) for name, why in unseen.items()),
            provenance=quantized.provenance,
        )


def weight_histogram(
    tensor: QuantTensor,
    pair: TensorPair | None = None,
    no_float: str | None = _NO_FLOAT_MODEL,
    *,
    bins: int = BINS,
) -> Histogram:
    """Count a stored tensor beside the float values it was rounded from, and those in 8 bits.

    "quantized" is what the file has. In the type that is not the tensor's own, float values are
    rounded as quantizers usually do, from the smallest to the largest of them (of each channel,
    where the file has a scale for each): int8 symmetric, uint8 asymmetric.
    """
    floats = None if pair is None else pair.float_values()
    if floats is None:
        reason = no_float if pair is None else "the float model does not store them"
        return _counted(choose_counting(tensor, None, reason), None, bins)
    return _counted(choose_counting(tensor, pair, floats=floats), floats, bins)


def _pair(floats: Runnable, quantized: Runnable) -> Pairing:
    # A runnable's network may be another than its model's: weights alone are run as a program.
    constants = (
        constants_of(floats.model, floats.network),
        constants_of(quantized.model, quantized.network),
    )
    return pair_networks(floats.network, quantized.network, constants=constants)


def _counted(chosen: Counting, floats: Array | None, bins: int) -> Histogram:
    return chosen.histogram(chosen.count(floats, chosen.tensor.integers()), bins)


def _found(network: Network, names: Sequence[str] | None) -> list[QuantTensor]:
    if names is None:
        return [tensor for tensor in network.tensors if tensor.role == "activation"]
    return [_find(network, name) for name in names]


def _find(network: Network, name: str) -> QuantTensor:
    layer = next((x for x in network.layers if name in (x.name, x.node_name)), None)
    is_tensor = any(tensor.name == name for tensor in network.tensors)
    output = layer.outputs[0].quant if layer is not None and layer.outputs else None
    return output if output is not None and not is_tensor else network.tensor(name)


def _counterpart(
    tensor: QuantTensor, pairing: Pairing | None, floats: Runnable | None
) -> tuple[TensorPair | None, str | None]:
    """Find what it stands for in the float network, or the reason why that is not known."""
    if pairing is None or floats is None:
        return None, _NO_FLOAT_MODEL
    found = pairing.by_name.get(tensor.name)
    if found is not None:
        return floats.readable(found)
    return None, next((u.reason for u in pairing.unpaired if u.name == tensor.name), None)


def rows_of(value: Array, batch: Batch) -> Array:
    """Leave out the rows that only fill a batch up."""
    return value[: batch.samples] if value.ndim and len(value) == batch.rows else value


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
