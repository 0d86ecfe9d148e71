"""Measure edited versions of one model on one set of samples, beside the model and its original."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples
from quantscope.diagnose.results import Gain
from quantscope.edit import Edit, Editor
from quantscope.errors import BadModelError
from quantscope.model.onnx import OnnxModel
from quantscope.progress import Progress, silent
from quantscope.run import (
    Measure,
    Outputs,
    Score,
    ScoreDelta,
    cores,
    finite_rows,
    match_floats,
    open_runnable,
    pick_measure,
    score_outputs,
    sqnr_of_outputs,
)
from quantscope.run.onnx.suffix import ValueGraph, executed_graph, value_graph
from quantscope.study.sweep import Sweep, fitting_batch

_BASE, _FLOAT = "as it is", "float"


@dataclass(eq=False)
class Bench:
    """A quantized ONNX model, its float original and samples, for many lists of edits.

    All variants that are asked for together run in one graph, which computes once what they have in
    common: the first time the model itself and its original among them. What was answered is kept.
    """

    editor: Editor
    samples: Samples
    measure: Measure | None
    threads: int = 0
    _answers: dict[str, Outputs] = field(default_factory=dict, repr=False)

    @property
    def original(self) -> OnnxModel:
        return self.editor.against[0].as_onnx("diagnosing")

    def run(
        self, variants: Mapping[str, Sequence[Edit]], *, what: str, progress: Progress = silent
    ) -> None:
        """Run the network under each list of edits; what was answered before is not run again."""
        new = {name: edits for name, edits in variants.items() if name not in self._answers}
        if not new and self._answers:
            return
        network = self.editor.network
        batch = fitting_batch(network, len(self.samples), self.threads or cores())
        sweep = Sweep(self.samples, batch, self.threads, what, progress)
        found = sweep.outputs(self._graphs(new))
        if _BASE in found:
            self._answers[_BASE] = found[_BASE]
        names = tuple(self._answers[_BASE])
        for name, outputs in found.items():
            same = zip(names, outputs.values(), strict=True)
            self._answers[name] = outputs if name == _FLOAT else dict(same)
        if _FLOAT in found:
            self._answers[_FLOAT] = match_floats(
                self._answers[_BASE],
                found[_FLOAT],
                model=self.editor.model.name,
                float_model=self.original.name,
            )

    def _graphs(self, variants: Mapping[str, Sequence[Edit]]) -> Iterator[tuple[str, ValueGraph]]:
        if not self._answers:
            yield _BASE, executed_graph(self.editor.base, "reference")
            yield _FLOAT, value_graph(self.original.proto)
        for name, edits in variants.items():
            yield name, executed_graph(self.editor.apply(edits).proto, "reference")

    def keep(self, name: str, outputs: Outputs) -> None:
        """Keep answers that came another way, such as those of kernels or of another file."""
        same = zip(self._answers[_BASE], outputs.values(), strict=True)
        self._answers[name] = dict(same)

    def knows(self, name: str) -> bool:
        return name in self._answers

    @property
    def base(self) -> Outputs:
        return self._answers[_BASE]

    @property
    def floats(self) -> Outputs:
        return self._answers[_FLOAT]

    def outputs(self, name: str) -> Outputs:
        return self._answers[name]

    @property
    def measured_by(self) -> Measure:
        """The measure that was asked for, or what the samples allow."""
        if self.measure is None:
            runnable = open_runnable(self.original, execution="reference")
            self.measure = pick_measure(
                self.base, self.samples, probabilities=runnable.gives_probabilities
            )
        return self.measure

    def score(self, outputs: Outputs) -> Score:
        return score_outputs(self.measured_by, outputs, self.samples, self.floats)

    def gain(self, outputs: Outputs, *, over: Outputs | None = None) -> Gain:
        """Say how much better answers are than `over`, those of the model as it is if left out."""
        over = self.base if over is None else over
        delta = ScoreDelta(self.score(outputs), self.score(over), self.samples.indices)
        after, before = self._sqnr_db(outputs), self._sqnr_db(over)
        change = None if after is None or before is None else after - before
        return Gain(delta, change)

    def gain_of(self, name: str) -> Gain:
        return self.gain(self._answers[name])

    def with_float_answers(self, chosen: NDArray[np.bool_]) -> Outputs:
        """Give the model's answers, but the float model's for the chosen samples."""
        made = {}
        for name, array in self.base.items():
            made[name] = np.array(array)
            made[name][chosen] = np.asarray(self.floats[name])[chosen]
        return made

    @property
    def is_exact(self) -> bool:
        """Say whether the model gives what its float original gives, bit for bit."""
        return all(np.array_equal(self.base[name], f) for name, f in self.floats.items())

    def check_finite(self) -> None:
        if not finite_rows(self.floats).any():
            raise BadModelError(
                f"{self.original.name} gives NaN or infinite scores for every sample: there is "
                f"nothing to hold {self.editor.model.name} against"
            )

    def _sqnr_db(self, outputs: Outputs) -> float | None:
        return sqnr_of_outputs(self.floats, outputs, finite_rows(self.floats))
