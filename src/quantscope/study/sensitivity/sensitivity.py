"""Find the layers that a quantized network's accuracy hangs on, by switching each one.

A layer's quantization is off in the quantized network, or on alone in the float one. All variants
run in one graph that computes once whatever they have in common: see `graph`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from quantscope.data import Samples, SamplesSource, check_batch, samples_for
from quantscope.edit import Applied, Edit, Editor, Off, On
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import (
    Execution,
    ModelSource,
    open_model,
    recorded_digest,
)
from quantscope.model.onnx import OnnxModel
from quantscope.progress import Progress, silent
from quantscope.run import (
    MEASURES,
    Measure,
    MeasureSource,
    Outputs,
    Runnable,
    cores,
    evaluate,
    find_measure,
    finite_rows,
    match_floats,
    open_runnable,
    pick_measure,
    sample_word,
)
from quantscope.run.compare import from_another
from quantscope.run.onnx.suffix import ValueGraph, executed_graph, value_graph
from quantscope.study.sensitivity.results import Mode, RowMode, Sensitivity
from quantscope.study.sensitivity.rows import Judge, Variant
from quantscope.study.sensitivity.targets import find_targets
from quantscope.study.sweep import Sweep, fitting_batch

_FLOAT, _BASE, _LAYER = "float", "base", "layer "
_LIFTED = "What runs is the QDQ form, whose kernels are not always those of the QOperator file"
_WHAT = {"disable": "Switching layers off", "enable": "Switching layers on"}


def sensitivity(
    model: ModelSource,
    images: SamplesSource,
    *,
    float_model: ModelSource | None = None,
    measure: MeasureSource | None = None,
    mode: Mode = "disable",
    execution: Execution = "reference",
    int8_kernels: bool | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Sensitivity:
    """Switch the quantization of each layer of a quantized ONNX model, and see what it changes.

    A layer's quantization is that of its weight, its bias and its output. What it reads belongs to
    the layer that makes it, and a model input is a row of its own. A layer that only moves numbers
    (Flatten, MaxPool) has no quantization of its own, and no row.

    `mode` "disable" switches it off in the quantized network, "enable" on alone, all else off;
    "both" does one after the other. `execution` is the quantized network's; "runtime" goes with
    "disable" only. `measure` None counts what the samples allow, as `evaluate` does. The float
    model always runs as its file states it; None works for bundled models and for those that say
    what they were made from. `threads` 0 means all cores.
    """
    check_batch(batch)
    if execution == "runtime" and mode != "disable":
        raise BadConfigError(
            f"Mode {mode} has no runtime execution: one quantized layer between float ones runs no "
            f"integer kernel; use --execution reference, or --mode disable"
        )
    editor = _open_editor(open_model(model).as_onnx("sensitivity"), float_model)
    images = samples_for(editor.model, images)
    original = _original(editor)
    floats = open_runnable(original, execution="reference", int8_kernels=int8_kernels)
    _check_images(floats, images)
    targets = find_targets(editor, progress)
    size = batch or fitting_batch(editor.network, len(images), threads or cores())
    modes: tuple[RowMode, ...] = ("disable", "enable") if mode == "both" else (mode,)
    swept: dict[RowMode, _Swept] = {}
    for each in modes:
        variants = _Variants(editor, targets.found, each, original, execution, int8_kernels)
        sweep = Sweep(images, size, threads, _WHAT[each], progress)
        swept[each] = _Swept(variants, _as_base(sweep.outputs(variants)))
        _check_finite(swept[each].outputs[_FLOAT], original.name)
    first = swept[modes[0]]
    asked = find_measure(measure) if isinstance(measure, str) else measure
    judge = _judge(first, images, floats, asked)
    bases = {each: judge.base(part.outputs[_BASE]) for each, part in swept.items()}
    of_float = None if judge.measure.needs_floats else judge.base(judge.floats)
    return Sensitivity(
        model=editor.model.name,
        digest=editor.model.digest,
        float_model=original.name,
        float_digest=original.digest,
        mode=mode,
        execution=execution,
        data=images.name,
        data_digest=images.digest,
        images=len(images),
        scores=_given(judge, floats),
        float_accuracy=None if of_float is None else of_float.accuracy,
        quantized=bases.get("disable"),
        all_off=bases.get("enable"),
        rows=tuple(
            row
            for each, part in swept.items()
            for row in judge.rows(each, part.outputs[_BASE], part.switched)
        ),
        not_switched=targets.skipped,
        notes=(
            *_notes(editor, original, execution),
            *_left_out(judge, original.name),
            *targets.notes,
        ),
        provenance=floats.provenance,
        measure=judge.measure.name,
        unit=judge.measure.unit,
        higher_is_better=judge.measure.higher_is_better,
        float_score=None if of_float is None else of_float.score,
        by_score=judge.by_score,
        sample_word=sample_word(images),
    )


def _as_base(found: Mapping[str, Outputs]) -> dict[str, Outputs]:
    """Give the outputs of all variants by the base's names; the float model's keep their own."""
    names = tuple(found[_BASE])
    return {
        variant: outputs if variant == _FLOAT else dict(zip(names, outputs.values(), strict=True))
        for variant, outputs in found.items()
    }


def _judge(swept: "_Swept", samples: Samples, floats: Runnable, measure: Measure | None) -> Judge:
    """Give what scores the variants: by a measure that was asked for the score itself ranks.

    So it does where its numbers are not right or wrong, of which a handful changes by chance.
    """
    outputs = swept.outputs[_BASE]
    theirs = match_floats(
        outputs, swept.outputs[_FLOAT], model="the quantized model", float_model=floats.name
    )
    chosen = measure or pick_measure(outputs, samples, probabilities=floats.gives_probabilities)
    by_score = measure is not None or chosen.unit != "share"
    return Judge(samples, theirs, chosen, by_score)


def _given(judge: Judge, floats: Runnable) -> Literal["logits", "probabilities", "outputs"]:
    if floats.gives_probabilities:
        return "probabilities"
    is_class = judge.measure in (MEASURES["top1"], MEASURES["agreement"])
    return "logits" if is_class else "outputs"


def _open_editor(model: OnnxModel, float_model: ModelSource | None) -> Editor:
    if model.is_float:
        raise BadModelError(
            f"{model.name} is not quantized, so there is nothing to switch; give the quantized "
            f"model, and the float one with --float, or quantize it: {model.quantize_command}"
        )
    return Editor(model, float_model)


def _original(editor: Editor) -> OnnxModel:
    return editor.against[0].as_onnx("sensitivity")


def _notes(editor: Editor, original: OnnxModel, execution: Execution) -> Iterator[str]:
    if editor.lifted and execution == "runtime":
        yield _LIFTED
    if original.is_stand_in:
        yield f"No float original is known; instead of it: {original.name}"
        return
    made_from = recorded_digest(editor.model)
    another = from_another(editor.model.name, made_from, original.name, original.digest)
    if another is not None:
        yield another


def _left_out(judge: Judge, float_model: str) -> Iterator[str]:
    without = np.flatnonzero(~judge.finite)
    if without.size:
        yield (
            f"{float_model} gives NaN or infinite scores for {without.size:,} of "
            f"{len(judge.samples):,} images, first image {judge.samples.indices[without[0]]}; "
            f"SQNRs are of the others"
        )


def _check_images(floats: Runnable, images: Samples) -> None:
    """Find out before the long work whether the images fit the model, and their labels too."""
    ends = [0]
    if images.targets is not None:
        ends = [int(images.targets.argmin()), int(images.targets.argmax())]
    evaluate(floats, images.select(ends))


def _check_finite(outputs: Outputs, model: str) -> None:
    if not finite_rows(outputs).any():
        raise BadModelError(
            f"{model} gives NaN or infinite scores for every image, against which nothing can be "
            f"ranked; quantscope compare says where they start"
        )


@dataclass(frozen=True)
class _Variants:
    """The models of one sweep, one at a time, for each is a whole model in memory.

    `tensors` fills up on the way: by layer, those whose quantization is not as in the base.
    """

    editor: Editor
    targets: Sequence[tuple[str, str]]
    mode: RowMode
    original: OnnxModel
    execution: Execution
    int8_kernels: bool | None
    tensors: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, ValueGraph]]:
        everything = [Off(name) for name, _ in self.targets] if self.mode == "enable" else []
        base = self.editor.apply(everything)
        yield _BASE, self._graph(base)
        yield _FLOAT, value_graph(self.original.proto)
        for name, _ in self.targets:
            switch: Edit = Off(name) if self.mode == "disable" else On(name)
            applied = self.editor.apply([*everything, switch])
            differing = _off(applied).keys() ^ _off(base).keys()
            self.tensors[name] = tuple(n for n in {**_off(base), **_off(applied)} if n in differing)
            yield _LAYER + name, self._graph(applied)

    def _graph(self, applied: Applied) -> ValueGraph:
        return executed_graph(applied.proto, self.execution, int8_kernels=self.int8_kernels)


@dataclass(frozen=True)
class _Swept:
    """The variants of one mode and the outputs of each, by its name."""

    variants: _Variants
    outputs: Mapping[str, Outputs]

    @property
    def switched(self) -> list[Variant]:
        tensors = self.variants.tensors
        return [
            Variant(name, op_type, tensors[name], self.outputs[_LAYER + name])
            for name, op_type in self.variants.targets
        ]


def _off(applied: Applied) -> dict[str, None]:
    """Give the tensors that are not quantized any more, as an ordered set."""
    return dict.fromkeys(change.tensor for change in applied.changes if change.after is None)
