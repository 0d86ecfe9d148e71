"""Look at inner values of ONNX models without changing what is looked at.

With optimizations off, more outputs change nothing. In runtime execution they can: an integer
tensor made an output leaves uint8 models as they are, but stops some int8 fusions. So runtime
values come only from a session that runs the same kernels, and gives the same scores, as one
without additions; what cannot be seen so is listed with the reason. A tensor whose real values
are an output of the model needs no looking into.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quantscope.arithmetic import quantize
from quantscope.data import Intake, Samples
from quantscope.model import QuantTensor
from quantscope.progress import Progress
from quantscope.run.capture import SampleParts, Seen, Wanted, to_captured
from quantscope.run.kernels import KernelMap, changed_layers
from quantscope.run.onnx.kernels import map_kernels
from quantscope.run.onnx.sessions import run_session, session_of

Array = NDArray[Any]


def add_outputs(proto: onnx.ModelProto, file_names: Sequence[str]) -> onnx.ModelProto:
    """Copy a model so that its outputs also hold these values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    have = {output.name for output in copy.graph.output}
    for name in dict.fromkeys(file_names):
        if name not in have:
            copy.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return copy


def output_of(tensor: QuantTensor, outputs: Iterable[str]) -> str | None:
    """Give the output of the model that holds a tensor's real values, so that nobody must look."""
    if tensor.params.axis is not None:
        return None
    return next((name for name in outputs if name in tensor.dequantized_names), None)


def changed_by_looking(
    proto: onnx.ModelProto,
    plain: KernelMap,
    file_names: Sequence[str],
    *,
    int8_kernels: bool | None,
) -> str | None:
    """Name the layers that run otherwise when these values are looked at; None where none does."""
    looked_into = add_outputs(proto, file_names)
    changed = changed_layers(plain, map_kernels(looked_into, int8_kernels=int8_kernels))
    return ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "") if changed else None


@dataclass(frozen=True)
class Looker:
    """Runs a model on all samples with chosen values among its outputs.

    `kernels` is the plain model's map in runtime execution, None in reference.
    """

    proto: onnx.ModelProto
    intake: Intake
    samples: Samples
    kernels: KernelMap | None
    int8_kernels: bool | None
    threads: int
    batch: int | None
    progress: Progress

    def look(self, wanted: Sequence[Wanted]) -> Seen:
        """Give all values that can be read, with the outputs of the model as it is."""
        outputs = [output.name for output in self.proto.graph.output]
        if self.kernels is None:
            values = self._run([w.file_name for w in wanted], outputs)
            found, unseen = values.split(wanted)
            return self._seen(values, wanted, found, unseen)
        plain = self._run([], outputs)
        found = dict(_of_outputs(wanted, plain.outputs))
        inner = [w for w in wanted if w.name not in found]
        together, _ = self._look_again(inner, outputs, plain, self.kernels)
        if together is not None:
            inside, unseen = together.split(inner)
            return self._seen(plain, wanted, found | inside, unseen)
        # Together they disturb; alone each may not.
        reasons: dict[str, str] = {}
        for w in inner:
            alone, why = self._look_again([w], outputs, plain, self.kernels)
            inside, unseen = ({}, {w.name: why}) if alone is None else alone.split([w])
            found |= inside
            reasons |= unseen
        return self._seen(plain, wanted, found, reasons)

    def _seen(
        self,
        values: "_Values",
        wanted: Sequence[Wanted],
        found: Mapping[str, Array],
        unseen: Mapping[str, str],
    ) -> Seen:
        tensors = {w.name: to_captured(w, found[w.name]) for w in wanted if w.name in found}
        return Seen(values.outputs, tensors, unseen, self.kernels, values.left_out)

    def _look_again(
        self,
        wanted: Sequence[Wanted],
        outputs: Sequence[str],
        plain: "_Values",
        kernels: KernelMap,
    ) -> tuple["_Values | None", str]:
        """Give the values if reading them leaves kernels and outputs as they are, else why not."""
        names = [w.file_name for w in wanted]
        layers = changed_by_looking(self.proto, kernels, names, int8_kernels=self.int8_kernels)
        if layers:
            return None, f"looking at it changes the kernels that run ({layers})"
        values = self._run(names, outputs)
        if not values.has_outputs_of(plain):
            return None, "looking at it changes the model's outputs"
        return values, ""

    def _run(self, names: Sequence[str], outputs: Sequence[str]) -> "_Values":
        asked = list(dict.fromkeys([*outputs, *names]))
        session = session_of(
            add_outputs(self.proto, names),
            "reference" if self.kernels is None else "runtime",
            int8_kernels=self.int8_kernels,
            threads=self.threads,
        )
        ends, inner = SampleParts(), SampleParts()
        done = 0
        for feeds, rows, count in self.intake.batches(self.samples, self.batch):
            values = run_session(session, asked, feeds, self.intake.model)
            for name, value in zip(asked, values, strict=True):
                for parts, known in ((ends, outputs), (inner, names)):
                    if name in known:
                        parts.add(name, np.asarray(value), rows, count)
            done += count
            self.progress("Capturing", done, len(self.samples))
        return _Values(ends.join(), ends.unseen, ends.whole, inner.join(), inner.unseen)


@dataclass(frozen=True)
class _Values:
    """Values by their names in the file; `whole` are the batches of outputs that are left out."""

    outputs: dict[str, Array]
    left_out: Mapping[str, str]
    whole: Mapping[str, Sequence[Array]]
    inner: Mapping[str, Array]
    unseen: Mapping[str, str]

    def has_outputs_of(self, other: "_Values") -> bool:
        """Say whether all outputs are the same, those that have no axis of samples among them."""
        batches = [
            pair
            for name, parts in self.whole.items()
            for pair in zip(parts, other.whole[name], strict=True)
        ]
        pairs = [(array, other.outputs[name]) for name, array in self.outputs.items()]
        return all(np.array_equal(*pair, equal_nan=True) for pair in pairs + batches)

    def split(self, wanted: Sequence[Wanted]) -> tuple[dict[str, Array], dict[str, str]]:
        """Give the values that could be read, by wanted name, and why the others could not."""
        values = ((w.name, self.inner.get(w.file_name)) for w in wanted)
        found = {name: value for name, value in values if value is not None}
        return found, {w.name: self.unseen[w.file_name] for w in wanted if w.name not in found}


def _of_outputs(
    wanted: Sequence[Wanted], outputs: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    """Give the integers of tensors whose real values are outputs of the model."""
    for w in wanted:
        name = None if w.tensor is None else output_of(w.tensor, outputs)
        if w.tensor is not None and name is not None:
            yield w.name, quantize(outputs[name], w.tensor.params)
