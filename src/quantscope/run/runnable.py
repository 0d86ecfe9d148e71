"""A model in one named execution: what every feature of this room runs through.

Two executions, always named. *Reference* is the arithmetic that the file states; *runtime* is what
ships: the fused kernels. They differ, sometimes by whole points of accuracy.

A feature (`capture/`, `compare/`, `histograms/`, `whatif/`, `integers/`) knows a `Runnable` and
what it gives, never a framework. `run/onnx` and `run/torch` each implement it; a third framework
would be a third folder with a `Runnable`, and a line in `open_runnable`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Feeds, Intake, Samples
from quantscope.model import (
    Execution,
    Model,
    ModelSource,
    Network,
    Pairing,
    QuantTensor,
    TensorPair,
    open_model,
)
from quantscope.progress import Progress

if TYPE_CHECKING:
    from quantscope.edit import Editor
    from quantscope.run.capture import Seen, Wanted
    from quantscope.run.compare import Detail, JointRun
    from quantscope.run.histograms import ValueReader
    from quantscope.run.kernels import KernelMap
    from quantscope.run.whatif import EditedRunner

Array = NDArray[Any]
Scores = NDArray[np.floating]


class Runnable(ABC):
    """A model, opened to be run in one execution.

    `intake` says how it is fed. `gives_probabilities`: its first output is a softmax's.
    `provenance` are the versions and settings that its numbers depend on.
    """

    model: Model
    execution: Execution
    intake: Intake
    gives_probabilities: bool
    provenance: Mapping[str, str]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.model.name

    @property
    def digest(self) -> str:
        return self.model.digest

    @property
    def network(self) -> Network:
        return self.model.network

    @abstractmethod
    def run(self, feeds: Feeds) -> Mapping[str, Array]:
        """Give the model's outputs for one batch, by their names, the first one first."""

    def scores(self, feeds: Feeds) -> Scores:
        """Give the first output alone, as floating-point numbers."""
        return next(iter(self.run(feeds).values()))

    @abstractmethod
    def is_value(self, name: str) -> bool:
        """Say whether the file computes a value of this name, a tensor of `Network` or not."""

    @abstractmethod
    def see(
        self, wanted: "Sequence[Wanted]", samples: Samples, *, batch: int | None, progress: Progress
    ) -> "Seen":
        """Give inner values for all samples where looking does not change what runs, else why."""

    @abstractmethod
    def reader(self, tensors: Sequence[QuantTensor]) -> "ValueReader":
        """Give what reads the integers of quantized activations, batch by batch."""

    @abstractmethod
    def values(self, names: Sequence[str], feeds: Feeds) -> Mapping[str, Array]:
        """Give values of one batch by their names in the file, as the file states them.

        `feeds` may be another model's: inputs in the same order, perhaps of other types.
        """

    def readable(self, pair: TensorPair) -> tuple[TensorPair | None, str | None]:
        """Give a pair whose float values this float network can be asked for, or why it cannot."""
        return pair, None

    @abstractmethod
    def against(
        self,
        floats: "Runnable",
        pairing: Pairing | None = None,
        *,
        detail: "Detail" = "full",
    ) -> "JointRun":
        """Run it beside its float original, with sums of what lies between them."""

    @abstractmethod
    def under_edits(
        self, editor: "Editor", samples: Samples, *, batch: int | None, kept_bytes_limit: int
    ) -> "EditedRunner":
        """Give what runs this model and edited versions of it on one set of samples."""

    def spread(self, threads: int) -> AbstractContextManager[None]:
        """Be run by so many threads at a time, each with batches of its own."""
        del threads
        return nullcontext()

    def kernels(self) -> "KernelMap | None":
        """Say which kernels run its layers; None where what the file states is what runs."""
        return None


def open_runnable(
    model: ModelSource,
    *,
    execution: Execution | None = None,
    usual: Execution = "runtime",
    int8_kernels: bool | None = None,
    threads: int = 0,
) -> Runnable:
    """Open a model to be run.

    `execution` None means the usual one, or else the only one that there is: reference for
    PyTorch's programs (.pt2) and ResNet8's weights (.safetensors), runtime for TorchScript archives
    (.pt). `int8_kernels` sets onnxruntime's `session.qdqisint8allowed`; None leaves it as the
    platform has it, and PyTorch files take nothing else. `threads` 0 means all cores; for PyTorch
    they are the process's, and not changed here.
    """
    opened = open_model(model)
    opened.check_int8_kernels(int8_kernels)
    chosen = opened.pick_execution(execution, usual=usual)
    if opened.framework == "torch":
        # PyTorch is imported when one of its files is run, not before.
        from quantscope.run.torch import open_torch

        return open_torch(opened, threads=threads)
    from quantscope.run.onnx import OnnxRunnable

    onnx_model = opened.as_onnx("onnxruntime")
    return OnnxRunnable(onnx_model, chosen, int8_kernels=int8_kernels, threads=threads)
