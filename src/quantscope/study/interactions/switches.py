"""Measure what a quantized network loses with any of its layers' quantization switched off."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import SamplesSource, samples_for
from quantscope.edit import Edit, Editor
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Execution, ModelSource, open_model, recorded_digest
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run import (
    MEASURES,
    Estimate,
    Measure,
    MeasureSource,
    Outputs,
    estimate_mean,
    find_measure,
    match_floats,
    sample_word,
)
from quantscope.run.compare import from_another
from quantscope.study.sensitivity import Targets, find_targets
from quantscope.study.variants import VariantBench

Losses = NDArray[np.float64]
"""Two numbers a sample, [2, samples]: the loss by the measure, and the noise. NaN: it has none."""

MOST_SECONDS = 600.0
"""The most that may be started without asking."""

_NOT_DECIBELS = "Decibels do not add up, so the noise that they are made of is what is counted"


@dataclass(frozen=True, eq=False)
class Switches:
    """A quantized network whose layers can be switched, opened once.

    `seconds` is about what one variant takes that shares nothing with others.
    """

    bench: VariantBench
    targets: Targets
    measure: Measure
    by_score: bool
    floats: Outputs
    seconds: float
    notes: tuple[str, ...]

    @classmethod
    def open(
        cls,
        model: ModelSource,
        samples: SamplesSource,
        *,
        float_model: ModelSource | None,
        measure: MeasureSource | None,
        layers: Sequence[str] | None,
        execution: Execution,
        int8_kernels: bool | None = None,
        batch: int | None = None,
        threads: int = 0,
        progress: Progress = silent,
    ) -> "Switches":
        """Open a network and find what can be switched; `layers` are the only ones, if given."""
        opened = open_model(model).as_onnx("sensitivity")
        if opened.is_float:
            raise BadModelError(
                f"{opened.name} is not quantized, so there is nothing to switch; give the "
                f"quantized model, and the float one with --float, or quantize it: "
                f"{opened.quantize_command}"
            )
        editor = Editor(opened, float_model)
        rows = samples_for(editor.model, samples)
        targets = find_targets(editor, progress)
        if layers is not None:
            targets = _only(targets, layers, opened.name)
        began = time.perf_counter()
        bench = VariantBench.open(
            editor,
            rows,
            measure=measure,
            execution=execution,
            int8_kernels=int8_kernels,
            batch=batch,
            threads=threads,
            progress=progress,
        )
        seconds = (time.perf_counter() - began) / 2
        asked = find_measure(measure) if isinstance(measure, str) else measure
        chosen, notes = bench.measured_by, list(_notes(editor))
        by_score = asked is not None or chosen.unit != "share"
        if chosen == MEASURES["signal"]:
            chosen, notes = MEASURES["noise"], [*notes, _NOT_DECIBELS]
        floats = match_floats(
            bench.base.outputs,
            bench.floats.outputs,
            model=opened.name,
            float_model=bench.floats.model,
        )
        told = (*notes, *targets.notes)
        return cls(bench, targets, chosen, by_score, floats, seconds, told)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.targets.found)

    def check_time(self, variants: int, most_seconds: float | None) -> None:
        """Refuse what takes longer than somebody wants to wait unasked; None waits for anything."""
        needed = variants * self.seconds
        if most_seconds is None or needed <= most_seconds:
            return
        rows = many(len(self.bench.samples), self.bench.base.sample_word)
        raise BadConfigError(
            f"{variants:,} variants of {self.bench.base.model} on {rows} may take "
            f"{_duration(needed)}; go on with --yes, or take fewer layers with --layer or fewer "
            f"rows with --images"
        )

    def losses(
        self,
        variants: Sequence[tuple[str, Sequence[Edit]]],
        *,
        what: str,
        progress: Progress,
    ) -> Iterator[tuple[str, Losses]]:
        """Give what each variant loses; they are best listed with neighbours alike."""
        for name, outputs in self.bench.stream(
            variants, len(variants), what=what, progress=progress
        ):
            yield name, self._losses(outputs)

    def estimates(self, losses: Losses) -> tuple[Estimate | None, Estimate | None]:
        """Give the mean loss by the measure, and the mean noise."""
        counted, noise = losses
        return estimate_mean(counted, counts=self.measure.unit == "share"), estimate_mean(noise)

    def facts(self) -> dict[str, Any]:
        """Give what every result says of where its numbers come from."""
        base, floats = self.bench.base, self.bench.floats
        return {
            "model": base.model,
            "digest": base.digest,
            "float_model": floats.model,
            "float_digest": floats.digest,
            "execution": self.bench.execution,
            "data": base.data,
            "data_digest": base.data_digest,
            "images": len(self.bench.samples),
            "sample_word": sample_word(self.bench.samples),
            "measure": self.measure.name,
            "unit": self.measure.unit,
            "higher_is_better": self.measure.higher_is_better,
            "by_score": self.by_score,
            "not_switched": self.targets.skipped,
            "notes": self.notes,
            "provenance": base.provenance,
        }

    def _losses(self, outputs: Outputs) -> Losses:
        samples = self.bench.samples
        counted = self.measure.count(outputs, samples, self.floats)
        noise = MEASURES["noise"].count(outputs, samples, self.floats)
        return np.array([-counted if self.measure.higher_is_better else counted, noise])


def _only(targets: Targets, layers: Sequence[str], model: str) -> Targets:
    known = [name for name, _ in targets.found]
    for name in layers:
        if name in known:
            continue
        why = next((f": {each.reason}" for each in targets.skipped if each.layer == name), "")
        if why:
            raise BadConfigError(f"{name} of {model} cannot be switched{why}")
        raise BadConfigError(
            f"No layer {name!r} of {model} can be switched; there are: {', '.join(known)}"
        )
    found = tuple(each for each in targets.found if each[0] in layers)
    return Targets(found, targets.skipped, targets.notes)


def _notes(editor: Editor) -> Iterator[str]:
    original = editor.against[0]
    if original.is_stand_in:
        yield f"No float original is known; instead of it: {original.name}"
        return
    made_from = recorded_digest(editor.model)
    another = from_another(editor.model.name, made_from, original.name, original.digest)
    if another is not None:
        yield another


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
