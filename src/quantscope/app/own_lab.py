"""Try settings on any float network with the samples at hand. No marimo here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from quantscope.data import Samples
from quantscope.errors import BadConfigError
from quantscope.model import Execution, Model
from quantscope.progress import Progress
from quantscope.quantize import Quantized, quantize_onnx, quantize_torch
from quantscope.run import Evaluation, Measure, evaluate
from quantscope.study import StudyConfig, key_of


@dataclass(frozen=True, eq=False)
class OwnTrial:
    """A configuration that was tried: what the model it made gives, and where that model is."""

    key: str
    label: str
    made: Quantized
    evaluations: Mapping[Execution, Evaluation]
    floats: Evaluation

    @property
    def model(self) -> Path:
        return self.made.path


class OwnTrials:
    """The trials of one float network. Its samples calibrate, and then measure what came of it."""

    def __init__(
        self, model: Model, samples: Samples, measure: Measure | None, folder: Path
    ) -> None:
        self._folder = folder
        self._model, self._measure = model, measure
        self.samples = samples
        self.no_torch = ""
        self._floats: Evaluation | None = None
        self._tried: dict[str, OwnTrial] = {}

    @property
    def trials(self) -> tuple[OwnTrial, ...]:
        return tuple(self._tried.values())

    def attempt(self, config: StudyConfig, *, progress: Progress) -> OwnTrial:
        """Quantize and measure, or raise as the quantization does."""
        config = self._with_rows(config)
        key = key_of(config=config.to_dict())
        if key not in self._tried:
            self._tried[key] = self._try(key, config, progress)
        return self._tried[key]

    def forget(self, trial: OwnTrial) -> None:
        """Drop a trial and its model."""
        self._tried.pop(trial.key, None)
        trial.model.unlink(missing_ok=True)

    def _with_rows(self, config: StudyConfig) -> StudyConfig:
        """Calibrate with what there is: the form's usual number may be more."""
        count = min(config.ptq.calibration_images, len(self.samples))
        return replace(config, ptq=replace(config.ptq, calibration_images=count))

    def _try(self, key: str, config: StudyConfig, progress: Progress) -> OwnTrial:
        made = self._quantize(key, config, progress)
        floats = self._evaluate_float(progress)
        executions: tuple[Execution, ...] = ("reference",)
        if self._model.framework == "onnx":
            executions = ("reference", "runtime")
        found = {
            execution: evaluate(
                made.path,
                self.samples,
                measure=self._measure,
                floats=floats,
                execution=execution,
                int8_kernels=config.int8_kernels if execution == "runtime" else None,
                progress=progress,
            )
            for execution in executions
        }
        return OwnTrial(key, config.label(), made, found, floats)

    def _quantize(self, key: str, config: StudyConfig, progress: Progress) -> Quantized:
        wanted = "onnxruntime" if self._model.framework == "onnx" else "torch"
        if config.ptq.framework != wanted:
            kind = "an ONNX file" if wanted == "onnxruntime" else "a PyTorch program"
            raise BadConfigError(f"{self._model.name} is {kind}; choose {wanted} as the framework")
        name = re.sub(r"[^a-z0-9]+", "-", config.label().lower()).strip("-")
        folder = self._folder / key
        folder.mkdir(parents=True, exist_ok=True)
        if wanted == "torch":
            return quantize_torch(
                self._model.path,
                folder / f"{name}.pt2",
                config.ptq,
                calibration=self.samples,
                progress=progress,
            )
        return quantize_onnx(
            self._model.path,
            folder / f"{name}.onnx",
            config.ptq,
            calibration=self.samples,
            progress=progress,
        )

    def _evaluate_float(self, progress: Progress) -> Evaluation:
        if self._floats is None:
            measure = self._measure
            # What is held against the float model says nothing of that model itself.
            if measure is not None and measure.needs_floats:
                measure = None
            self._floats = evaluate(
                self._model,
                self.samples,
                measure=measure,
                execution="reference",
                progress=progress,
            )
        return self._floats
