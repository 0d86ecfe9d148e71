"""A float and a quantized ONNX model in one graph that also reduces the sums between them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Batch, Feeds, Samples
from quantscope.model import Network, Pairing
from quantscope.model.onnx import OnnxModel
from quantscope.model.pairing import constants_of
from quantscope.run.compare import (
    Comparison,
    Constants,
    Detail,
    JointBatch,
    compare_constants,
    pair_comparable,
    small_batch,
)
from quantscope.run.measure import Outputs
from quantscope.run.onnx.compare.graph import build_graph
from quantscope.run.onnx.compare.session import FEWEST_IMAGES, TRIAL_IMAGES, ComparisonSession
from quantscope.run.onnx.readers import RuntimeReader

if TYPE_CHECKING:
    from quantscope.run.onnx.runnable import OnnxRunnable

Array = NDArray[Any]


class OnnxJointRun:
    """Two ONNX models in one graph; in reference execution the quantized one runs in it too.

    In runtime execution the graph is fed the integers that the kernels which ship made.
    """

    def __init__(
        self,
        quantized: "OnnxRunnable",
        floats: OnnxModel,
        pairing: Pairing | None,
        *,
        detail: Detail,
    ) -> None:
        self.quantized, self.floats, self.detail = quantized, floats, detail
        model = quantized.model
        self._constants = constants_of(floats), constants_of(model)
        self.pairing = pairing or pair_comparable(floats.network, model.network, self._constants)
        self._reader: RuntimeReader | None = None
        if quantized.execution == "runtime":
            names = [p.name for p in self.pairing.pairs if p.role == "activation"]
            tensors = [model.network.tensor(name) for name in names]
            self._reader = RuntimeReader(model, tensors, int8_kernels=quantized.int8_kernels)
        self.graph = build_graph(
            floats.proto,
            model.stated,
            model.network,
            self.pairing,
            detail=detail,
            fed=None if self._reader is None else self._reader.seen,
        )
        self._session: ComparisonSession | None = None

    @property
    def network(self) -> Network:
        return self.quantized.network

    def batch_size(self, batch: int | None) -> int:
        return batch or small_batch(self.network)

    def batches(self, samples: Samples, size: int) -> Iterator[Batch]:
        return self.quantized.intake.batches(samples, size)

    @contextmanager
    def start(self, samples: Samples, size: int, threads: int) -> Iterator[None]:
        del threads
        trial = list(self._trial(samples, min(size, TRIAL_IMAGES)))
        self._session = ComparisonSession(self.graph, model=self.quantized.name, trial=trial)
        yield

    def run(self, batch: Batch) -> JointBatch:
        assert self._session is not None, "`start` comes first"
        fed, shipped = self._fed(batch.feeds)
        values = self._session.run(fed)
        return JointBatch(
            float_outputs=_named(self.graph.float_outputs, values),
            quantized_outputs=_named(self.graph.outputs, values) if shipped is None else shipped,
            sums=tuple(probe.sums(values) for probe in self.graph.probes),
        )

    def unseen(self) -> dict[str, str]:
        return {**self.graph.unseen, **(self._reader.unseen if self._reader else {})}

    def constants(self) -> Constants:
        if self.detail != "full":
            return {}, []
        return compare_constants(self.pairing, self._constants, is_stand_in=self.floats.is_stand_in)

    def provenance(self) -> Mapping[str, str]:
        is_faster = self._session is not None and self._session.is_faster
        kernels = "optimized" if is_faster else "plain"
        return {**self.quantized.provenance, "float kernels": kernels}

    def is_told_by_digest(self) -> bool:
        return True

    def finish(self, result: Comparison) -> Comparison:
        return result

    def _fed(self, feeds: Feeds) -> tuple[dict[str, Array], Outputs | None]:
        """Give what the graph is fed for a batch, and the outputs of kernels that ship, if any."""
        given = {self.graph.inputs[name]: array for name, array in feeds.items()}
        if self._reader is None:
            return given, None
        integers, shipped = self._reader.read_beside(feeds)
        fed = {self.graph.fed[name]: values for name, values in integers.items()}
        paired = {name: shipped[name] for name in self.graph.outputs}
        return {**given, **fed}, paired

    def _trial(self, samples: Samples, size: int) -> Iterator[dict[str, Array]]:
        """Feed a few samples, from first to last; none where there are too few to gain by it."""
        if len(samples) < FEWEST_IMAGES:
            return
        spread = np.linspace(0, len(samples) - 1, TRIAL_IMAGES).round().astype(np.int64)
        for batch in self.batches(samples.select(spread), size):
            yield self._fed(batch.feeds)[0]


def _named(names: Mapping[str, str], values: Mapping[str, Array]) -> Outputs:
    return {name: values[value] for name, value in names.items()}
