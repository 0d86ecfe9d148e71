"""Measure many edited variants of one network, which run once whatever they have in common."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quantscope.data import Samples, samples_for
from quantscope.edit import Edit, Editor
from quantscope.model import Execution, ModelSource, open_model
from quantscope.progress import Progress, silent
from quantscope.run import (
    Evaluation,
    Measure,
    MeasureSource,
    Origin,
    Outputs,
    cores,
    evaluate,
    evaluate_float,
    evaluate_outputs,
    find_measure,
    open_runnable,
    pick_measure,
)
from quantscope.run.onnx.suffix import ValueGraph, executed_graph
from quantscope.study.sweep import Sweep, fitting_batch

MOST_OUTPUT_BYTES = 256 << 20
"""The most that the outputs of one graph's variants may take, looked at one by one."""


@dataclass(frozen=True, eq=False)
class VariantBench:
    """A quantized ONNX network, its float original and samples, opened once for many variants.

    `base` is the unedited network, `floats` the float one, both measured as the variants are.
    """

    editor: Editor
    samples: Samples
    measured_by: Measure
    base: Evaluation
    floats: Evaluation
    execution: Execution
    threads: int
    int8_kernels: bool | None = None
    batch: int | None = None

    @classmethod
    def open(
        cls,
        model: ModelSource | Editor,
        samples: Samples,
        *,
        float_model: ModelSource | None = None,
        measure: MeasureSource | None = None,
        execution: Execution = "reference",
        threads: int = 0,
        int8_kernels: bool | None = None,
        batch: int | None = None,
        progress: Progress = silent,
    ) -> "VariantBench":
        """Open a network and measure it beside the float one."""
        editor = (
            model
            if isinstance(model, Editor)
            else Editor(open_model(model).as_onnx("a study of variants"), float_model)
        )
        samples = samples_for(editor.model, samples)
        runnable = open_runnable(
            editor.model, execution=execution, threads=threads, int8_kernels=int8_kernels
        )
        chosen = find_measure(measure) if isinstance(measure, str) else measure
        original = editor.against[0]
        floats = evaluate_float(
            runnable,
            samples,
            measure=chosen,
            float_model=original,
            threads=threads,
            progress=progress,
        )
        base = evaluate(runnable, samples, measure=chosen, floats=floats, progress=progress)
        by = chosen or pick_measure(
            base.outputs, samples, probabilities=runnable.gives_probabilities
        )
        return cls(editor, samples, by, base, floats, execution, threads, int8_kernels, batch)

    @property
    def origin(self) -> Origin:
        """The models, the execution and the data of everything that is measured here."""
        return Origin(
            model=self.base.model,
            digest=self.base.digest,
            float_model=self.floats.model,
            float_digest=self.floats.digest,
            execution=self.execution,
            data=self.base.data,
            data_digest=self.base.data_digest,
        )

    def measure(
        self,
        variants: Mapping[str, Sequence[Edit]],
        *,
        what: str,
        progress: Progress = silent,
    ) -> dict[str, Evaluation]:
        """Measure the network under each list of edits, as it was measured without any."""
        runnable = open_runnable(self.editor.model, execution=self.execution)
        found = self._sweep(what, progress).outputs(self._graphs(variants.items()))
        return {
            name: evaluate_outputs(
                outputs,
                self.samples,
                runnable,
                measure=self.measured_by,
                floats=self.floats,
                name=f"{runnable.name}, {name}",
            )
            for name, outputs in found.items()
        }

    def stream(
        self,
        variants: Iterable[tuple[str, Sequence[Edit]]],
        total: int,
        *,
        what: str,
        progress: Progress = silent,
    ) -> Iterator[tuple[str, Outputs]]:
        """Give the outputs of each variant, of `total`, by the base's names, and keep none.

        Neighbours are best alike: those that fit into one graph share what they have in common.
        """
        names = tuple(self.base.outputs)
        a_variant = sum(array.nbytes for array in self.base.outputs.values())
        at_once = max(1, MOST_OUTPUT_BYTES // max(a_variant, 1))
        sweep = self._sweep(what, progress)
        for name, outputs in sweep.stream(self._graphs(variants), total, at_once=at_once):
            yield name, dict(zip(names, outputs.values(), strict=True))

    def _sweep(self, what: str, progress: Progress) -> Sweep:
        cores_used = self.threads or cores()
        size = self.batch or fitting_batch(self.editor.network, len(self.samples), cores_used)
        return Sweep(self.samples, size, self.threads, what, progress)

    def _graphs(
        self, variants: Iterable[tuple[str, Sequence[Edit]]]
    ) -> Iterator[tuple[str, ValueGraph]]:
        for name, edits in variants:
            proto = self.editor.apply(edits).proto
            yield name, executed_graph(proto, self.execution, int8_kernels=self.int8_kernels)
