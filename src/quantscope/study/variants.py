"""Measure many edited variants of one network, which run once whatever they have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quantscope.data import Samples, samples_for
from quantscope.edit import Edit, Editor
from quantscope.model import Execution, ModelSource, open_model
from quantscope.progress import Progress, silent
from quantscope.run import (
    Evaluation,
    Measure,
    MeasureSource,
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
        progress: Progress = silent,
    ) -> "VariantBench":
        """Open a network and measure it beside the float one."""
        editor = (
            model
            if isinstance(model, Editor)
            else Editor(open_model(model).as_onnx("a study of variants"), float_model)
        )
        samples = samples_for(editor.model, samples)
        runnable = open_runnable(editor.model, execution=execution, threads=threads)
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
        return cls(editor, samples, by, base, floats, execution, threads)

    def measure(
        self,
        variants: Mapping[str, Sequence[Edit]],
        *,
        what: str,
        progress: Progress = silent,
    ) -> dict[str, Evaluation]:
        """Measure the network under each list of edits, as it was measured without any."""
        network = self.editor.network
        size = fitting_batch(network, len(self.samples), self.threads or cores())
        sweep = Sweep(self.samples, size, self.threads, what, progress)
        runnable = open_runnable(self.editor.model, execution=self.execution)
        found = sweep.outputs(self._graphs(variants))
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

    def _graphs(self, variants: Mapping[str, Sequence[Edit]]) -> Iterator[tuple[str, ValueGraph]]:
        for name, edits in variants.items():
            applied = self.editor.apply(edits)
            yield name, executed_graph(applied.proto, self.execution)
