"""Values of ONNX files. Looking must not change what is looked at.

With optimizations off, more outputs change nothing. In runtime execution they can: an integer
tensor made an output leaves uint8 models as they are, but stops some int8 fusions. So runtime
values come only from a session that runs the same kernels, and gives the same scores, as one
without additions; what cannot be seen so is listed with the reason. A tensor whose real values
are an output of the model needs no looking into.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.arithmetic import quantize
from quantscope.data import ImageSet
from quantscope.edit import lift_to_qdq
from quantscope.errors import BadModelError
from quantscope.model import QuantTensor, load_onnx, read_onnx
from quantscope.model.onnx import open_graph
from quantscope.progress import Progress
from quantscope.run.batches import ImageParts, input_batches
from quantscope.run.capture.captured import Capture, Wanted, captured, find_wanted, stored_constants
from quantscope.run.classifier import Classifier
from quantscope.run.kernels import KernelMap, changed_layers, kernel_map
from quantscope.run.onnx.classifier import open_onnx
from quantscope.run.onnx.layer_names import named_by_layer
from quantscope.run.onnx.sessions import Execution, reason_of, session_of

Array = NDArray[Any]


def capture_onnx(
    path: Path,
    images: ImageSet,
    tensors: Sequence[str] | None,
    *,
    execution: Execution,
    int8_kernels: bool | None,
    threads: int,
    batch: int | None,
    progress: Progress,
) -> Capture:
    file = load_onnx(path)
    network = read_onnx(file)

    def is_computed(name: str) -> bool:
        graph = open_graph(file)
        return name in graph.types and not graph.is_constant(name)

    wanted = find_wanted(network, tensors, is_computed)
    stored = stored_constants(wanted)
    computed = [w for w in wanted.values() if w.name not in stored]
    classifier = open_onnx(file, execution=execution, int8_kernels=int8_kernels, threads=threads)
    proto = file.load_proto()
    if execution == "reference" and file.format in ("qoperator", "mixed"):
        proto = lift_to_qdq(proto)
    elif execution == "runtime":
        proto = named_by_layer(proto, network)
    reader = _Reader(proto, classifier, images, execution, int8_kernels, threads, batch, progress)
    kernels = kernel_map(proto, int8_kernels=int8_kernels) if execution == "runtime" else None
    outputs, found, unseen = reader.read(computed, [spec.name for spec in file.outputs], kernels)
    kept = {w.name: captured(w, found[w.name]) for w in computed if w.name in found} | stored
    return Capture(
        model=path.name,
        digest=file.digest,
        execution=execution,
        data=images.name,
        indices=images.indices,
        tensors={name: kept[name] for name in wanted if name in kept},
        unseen=unseen,
        outputs=outputs,
        provenance=classifier.provenance,
        kernels=kernels,
    )


def instrumented(proto: onnx.ModelProto, file_names: Sequence[str]) -> onnx.ModelProto:
    """A copy whose outputs also hold these values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    have = {output.name for output in copy.graph.output}
    for name in dict.fromkeys(file_names):
        if name not in have:
            copy.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return copy


@dataclass(frozen=True)
class _Reader:
    proto: onnx.ModelProto
    classifier: Classifier
    images: ImageSet
    execution: Execution
    int8_kernels: bool | None
    threads: int
    batch: int | None
    progress: Progress

    def read(
        self, wanted: Sequence[Wanted], outputs: Sequence[str], kernels: KernelMap | None
    ) -> tuple[dict[str, Array], dict[str, Array], dict[str, str]]:
        """The model's outputs, what could be read, and why the rest could not."""
        if kernels is None:
            values = self._run([w.file_name for w in wanted], outputs)
            return values.outputs, *values.split(wanted)
        plain = self._run([], outputs).outputs
        found = dict(_of_outputs(wanted, plain))
        inner = [w for w in wanted if w.name not in found]
        together, _ = self._same(inner, outputs, plain, kernels)
        if together is not None:
            inside, unseen = together.split(inner)
            return plain, found | inside, unseen
        # Together they disturb; alone each may not.
        reasons: dict[str, str] = {}
        for w in inner:
            alone, why = self._same([w], outputs, plain, kernels)
            inside, unseen = ({}, {w.name: why}) if alone is None else alone.split([w])
            found |= inside
            reasons |= unseen
        return plain, found, reasons

    def _same(
        self,
        wanted: Sequence[Wanted],
        outputs: Sequence[str],
        plain: Mapping[str, Array],
        plain_map: KernelMap,
    ) -> tuple["_Values | None", str]:
        """The values if reading them leaves the kernels and the outputs as they are, else why."""
        names = [w.file_name for w in wanted]
        looked_into = instrumented(self.proto, names)
        changed = changed_layers(plain_map, kernel_map(looked_into, int8_kernels=self.int8_kernels))
        if changed:
            layers = ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "")
            return None, f"looking at it changes the kernels that run ({layers})"
        values = self._run(names, outputs)
        both = [(values.outputs[name], plain[name]) for name in outputs]
        if not all(np.array_equal(*pair, equal_nan=True) for pair in both):
            return None, "looking at it changes the model's outputs"
        return values, ""

    def _run(self, names: Sequence[str], outputs: Sequence[str]) -> "_Values":
        asked = list(dict.fromkeys([*outputs, *names]))
        session = session_of(
            instrumented(self.proto, names),
            self.execution,
            int8_kernels=self.int8_kernels,
            threads=self.threads,
        )
        (feed,) = (value.name for value in session.get_inputs())
        ends, inner = ImageParts(), ImageParts()
        done = 0
        for rows, count in input_batches(self.classifier, self.images, self.batch):
            try:
                values = session.run(asked, {feed: rows})
            except Exception as error:  # onnxruntime's exceptions share no base class
                name = self.classifier.name
                raise BadModelError(f"{name} failed while running: {reason_of(error)}") from None
            for name, value in zip(asked, values, strict=True):
                for parts, known in ((ends, outputs), (inner, names)):
                    if name in known:
                        parts.add(name, np.asarray(value), len(rows), count)
            done += count
            self.progress("Capturing", done, len(self.images))
        return _Values(ends.outputs(self.classifier.name), inner.joined(), inner.unseen)


@dataclass(frozen=True)
class _Values:
    """By names in the file."""

    outputs: dict[str, Array]
    inner: Mapping[str, Array]
    unseen: Mapping[str, str]

    def split(self, wanted: Sequence[Wanted]) -> tuple[dict[str, Array], dict[str, str]]:
        """By the wanted ones' names: those that could be read, and why the others could not."""
        values = ((w.name, self.inner.get(w.file_name)) for w in wanted)
        found = {name: value for name, value in values if value is not None}
        return found, {w.name: self.unseen[w.file_name] for w in wanted if w.name not in found}


def output_of(tensor: QuantTensor, outputs: Iterable[str]) -> str | None:
    """The output of the model that holds its real values: it needs no looking into."""
    if tensor.params.axis is not None:
        return None
    return next((name for name in outputs if name in tensor.dequantized_names), None)


def _of_outputs(
    wanted: Sequence[Wanted], outputs: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    for w in wanted:
        name = None if w.tensor is None else output_of(w.tensor, outputs)
        if w.tensor is not None and name is not None:
            yield w.name, quantize(outputs[name], w.tensor.params)
