"""Run ONNX models by onnxruntime, in either execution."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from quantscope.data import Feeds, Intake, Samples
from quantscope.edit import Editor
from quantscope.model import Execution, Pairing, Port, QuantTensor
from quantscope.model.onnx import OnnxModel
from quantscope.progress import Progress
from quantscope.run.capture import Seen, Wanted
from quantscope.run.compare import Detail
from quantscope.run.cpu import cpu_name
from quantscope.run.histograms import ValueReader
from quantscope.run.kernels import INT8_OPTION, KernelMap
from quantscope.run.onnx.kernels import map_kernels, map_model, name_by_layer
from quantscope.run.onnx.readers import ReferenceReader, RuntimeReader, only_up_to
from quantscope.run.onnx.seeing import Looker
from quantscope.run.onnx.sessions import open_session, run_session, session_of
from quantscope.run.runnable import Runnable, Scores

if TYPE_CHECKING:
    from quantscope.run.onnx.compare import OnnxJointRun
    from quantscope.run.onnx.whatif import OnnxEditedRunner

Array = NDArray[Any]


class OnnxRunnable(Runnable):
    """An ONNX model in one execution; its sessions are opened when they are first needed."""

    model: OnnxModel

    def __init__(
        self,
        model: OnnxModel,
        execution: Execution,
        *,
        int8_kernels: bool | None = None,
        threads: int = 0,
    ) -> None:
        self.model, self.execution = model, execution
        self.int8_kernels, self.threads = int8_kernels, threads
        self.intake = Intake.of(model)
        self.gives_probabilities = model.gives_probabilities
        self.provenance = {
            "onnxruntime": ort.__version__,
            "onnx": onnx.__version__,
            "quantscope": version("quantscope"),
            "cpu": cpu_name(),
            INT8_OPTION: {None: "platform default", True: "1", False: "0"}[int8_kernels],
        }

    @cached_property
    def session(self) -> ort.InferenceSession:
        """The plain model in this execution, with nothing added to look at."""
        return open_session(
            self.model, self.execution, int8_kernels=self.int8_kernels, threads=self.threads
        )

    def run(self, feeds: Feeds) -> dict[str, Array]:
        names = [port.name for port in self.model.outputs]
        return dict(zip(names, run_session(self.session, names, feeds, self.name), strict=True))

    def scores(self, feeds: Feeds) -> Scores:
        (found,) = run_session(self.session, [self.model.outputs[0].name], feeds, self.name)
        scores: Scores = found
        return scores

    def is_value(self, name: str) -> bool:
        return name in self.model.graph.types and not self.model.graph.is_constant(name)

    def see(
        self, wanted: Sequence[Wanted], samples: Samples, *, batch: int | None, progress: Progress
    ) -> Seen:
        proto, kernels = self.model.stated, None
        if self.execution == "runtime":
            proto = name_by_layer(self.model.proto, self.network)
            kernels = map_kernels(proto, int8_kernels=self.int8_kernels)
        looker = Looker(
            proto=proto,
            intake=self.intake,
            samples=samples,
            kernels=kernels,
            int8_kernels=self.int8_kernels,
            threads=self.threads,
            batch=batch,
            progress=progress,
        )
        return looker.look(wanted)

    def reader(self, tensors: Sequence[QuantTensor]) -> ValueReader:
        if self.execution == "runtime":
            return RuntimeReader(self.model, tensors, int8_kernels=self.int8_kernels)
        return ReferenceReader(self.model, tensors, threads=self.threads)

    def values(self, names: Sequence[str], feeds: Feeds) -> Mapping[str, Array]:
        """Give values of one batch; the part of the graph that makes them is opened only once."""
        given = _as_own(feeds, self.intake.ports)
        asked = tuple(name for name in dict.fromkeys(names) if name not in given)
        if not asked:
            return given
        if asked not in self._parts:
            part = only_up_to(self.model.stated, asked)
            self._parts[asked] = session_of(part, "reference", threads=1)
        found = run_session(self._parts[asked], asked, given, self.name)
        return {**given, **dict(zip(asked, found, strict=True))}

    @cached_property
    def _parts(self) -> dict[tuple[str, ...], ort.InferenceSession]:
        return {}

    def against(
        self, floats: Runnable, pairing: Pairing | None = None, *, detail: Detail = "full"
    ) -> "OnnxJointRun":
        from quantscope.run.onnx.compare import OnnxJointRun

        return OnnxJointRun(self, floats.model.as_onnx("compare"), pairing, detail=detail)

    def under_edits(
        self, editor: Editor, samples: Samples, *, batch: int | None, kept_bytes_limit: int
    ) -> "OnnxEditedRunner":
        from quantscope.run.onnx.whatif import OnnxEditedRunner

        return OnnxEditedRunner(
            self, editor, samples, batch=batch, kept_bytes_limit=kept_bytes_limit
        )

    def kernels(self) -> KernelMap | None:
        if self.execution == "reference":
            return None
        return map_model(self.model, int8_kernels=self.int8_kernels)


def _as_own(feeds: Feeds, ports: Sequence[Port]) -> dict[str, Array]:
    """Take what another model was fed: inputs in the same order, perhaps of other types."""
    given = zip(ports, feeds.values(), strict=True)
    return {port.name: np.asarray(array, port.dtype) for port, array in given}
