"""Run a float program beside its quantized form, as a `JointRun`. Needs the `torch` extra."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from quantscope.data import Batch, Intake, Samples
from quantscope.errors import BadModelError
from quantscope.model import Model, Network, Pairing, TensorPair
from quantscope.run.compare import (
    Comparison,
    Constants,
    Detail,
    JointBatch,
    ProbeSums,
    TensorComparison,
    pair_comparable,
    small_batch,
)
from quantscope.run.torch.joint_programs import JointPrograms
from quantscope.run.torch.probes import TorchProbe
from quantscope.run.torch.program import ProgramRunnable
from quantscope.run.torch.quantizers import ProgramQuantizer
from quantscope.run.torch.threads import keep_freed_memory, one_thread_each
from quantscope.run.torch.weights import check_weights_fit, compare_weights

_EXTREMES = ("min", "max")


def pair_programs(floats: ProgramRunnable, quantized: ProgramRunnable) -> Pairing:
    """Pair two programs; refused where the two do not belong together."""
    pairing = pair_comparable(floats.network, quantized.network)
    check_weights_fit(floats, quantized, pairing)
    return pairing


class ProgramJointRun:
    """Two programs side by side; PyTorch takes sums as soon as both have a value.

    `unquantized` are paired activations that have no quantizer in this program, with the value to
    look at instead.
    """

    def __init__(
        self,
        floats: ProgramRunnable,
        quantized: ProgramRunnable,
        pairing: Pairing,
        *,
        detail: Detail,
        unquantized: Sequence[tuple[TensorPair, ProgramQuantizer]] = (),
    ) -> None:
        self.quantized, self.pairing, self.detail = quantized, pairing, detail
        self._floats = floats
        self._intake = _common_intake(floats, quantized)
        self._programs = JointPrograms(
            floats, quantized, pairing, detail=detail, unquantized=unquantized
        )

    @property
    def floats(self) -> Model:
        return self._floats.model

    @property
    def network(self) -> Network:
        return self.quantized.network

    def batch_size(self, batch: int | None) -> int:
        # An operator of PyTorch costs more to call than one of onnxruntime: twice the samples.
        return batch or 2 * small_batch(self.network)

    def batches(self, samples: Samples, size: int) -> Iterator[Batch]:
        return self._intake.batches(samples, size)

    @contextmanager
    def start(self, samples: Samples, size: int, threads: int) -> Iterator[None]:
        del size
        keep_freed_memory()
        with one_thread_each(threads):
            for first in self._intake.batches(samples.take(1), 1):
                self._programs.check(first.feeds)
            yield

    def run(self, batch: Batch) -> JointBatch:
        found = self._programs.run(batch.feeds)
        sums = (
            ProbeSums(probe.as_probe(found.sums[name]), found.statistics[name], found.sizes[name])
            for name, probe in self._programs.by_name.items()
        )
        name = self.network.outputs[0].name
        return JointBatch({name: found.float_scores}, {name: found.quantized_scores}, tuple(sums))

    def unseen(self) -> Mapping[str, str]:
        return self._programs.unseen

    def constants(self) -> Constants:
        if self.detail != "full":
            return {}, []
        return compare_weights(self._floats, self.quantized, self.pairing)

    def provenance(self) -> Mapping[str, str]:
        return self.quantized.provenance

    def is_told_by_digest(self) -> bool:
        # A float program may be what the recorded weights were exported as.
        return not self.floats.has_network

    def finish(self, result: Comparison) -> Comparison:
        probes = self._programs.by_name
        tensors = tuple(_narrowed(each, probes.get(each.name)) for each in result.tensors)
        return replace(result, tensors=tensors)


def _common_intake(floats: ProgramRunnable, quantized: ProgramRunnable) -> Intake:
    """Feed the quantized program, with batches that the float one was exported for too."""
    both = floats.intake, quantized.intake
    fixed = {intake.fixed_batch for intake in both if intake.fixed_batch is not None}
    least = max(*(intake.least for intake in both), *fixed)
    most = min((m for m in (*(intake.most for intake in both), *fixed) if m), default=None)
    if len(fixed) > 1 or (most is not None and least > most):
        raise BadModelError(
            f"{floats.name} and {quantized.name} take no batch in common; export both with a "
            f"dynamic batch"
        )
    return replace(quantized.intake, fixed_batch=next(iter(fixed), None), least=least, most=most)


def _narrowed(tensor: TensorComparison, probe: TorchProbe | None) -> TensorComparison:
    """Measure by the range that the quantizer has, where that is less than its type's."""
    if probe is None or tensor.float_values is None:
        return tensor
    low, high = probe.quantizer.low, probe.quantizer.high
    step = probe.tensor.params.step
    least, most = (np.array([getattr(c, f"float_{e}") for c in tensor.channels]) for e in _EXTREMES)
    is_whole = np.allclose([low, high], probe.tensor.params.representable_range)
    if is_whole or (low.ndim and low.shape != least.shape):
        return tensor
    used = (np.clip(most, low, high) - np.clip(least, low, high)) / (high - low)
    ends = np.clip([least.min(), most.max()], low, high) if low.ndim == 0 else None
    return replace(
        tensor,
        beyond_low_steps=max(0.0, float(((low - least) / step).max())),
        beyond_high_steps=max(0.0, float(((most - high) / step).max())),
        used_share_of_range=None if ends is None else float((ends[1] - ends[0]) / (high - low)),
        channels=tuple(
            replace(channel, used_share_of_range=float(share))
            for channel, share in zip(tensor.channels, used, strict=True)
        ),
    )
