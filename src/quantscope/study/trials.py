"""Try configurations one at a time, as a person asks for them, and keep their models."""

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from quantscope.errors import BadModelError
from quantscope.model import ModelSource, open_model
from quantscope.progress import Progress, silent
from quantscope.quantize import Backend
from quantscope.study.config import StudyConfig
from quantscope.study.engine import key_of
from quantscope.study.ptq import PtqSetting, baseline_row, keep_row
from quantscope.study.ptq_study import answers_of, float_models
from quantscope.study.results import StudyResult, StudyRow
from quantscope.study.setting import samples_file


@dataclass(frozen=True)
class Trial:
    """A configuration that was tried: what was measured, and where its model is."""

    config: StudyConfig
    row: StudyRow
    model: Path

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self.row.facts.get("warnings", ()))


class Trials:
    """The trials of one float model on one set of images, each measured against that model.

    Models are kept in `folder`, one folder each. The same configuration is tried once. Baselines
    are measured when they are first needed.
    """

    def __init__(
        self,
        model: ModelSource,
        folder: Path,
        *,
        torch_model: str | Path | None = None,
        data: str = "sample",
    ) -> None:
        models, self.no_torch = float_models(model, torch_model, travelling=False)
        self._setting = PtqSetting(models=models, data=samples_file(open_model(model), data))
        self._folder = folder
        self._baselines: dict[Backend, StudyRow] = {}
        self._trials: dict[str, Trial] = {}

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self._trials.values())

    def attempt(self, config: StudyConfig, *, progress: Progress = silent) -> Trial:
        """Quantize and measure, or raise as the quantization does."""
        framework = config.ptq.framework
        if framework not in self._setting.models:
            raise BadModelError(self.no_torch)
        key = key_of(config=config.to_dict())
        if key not in self._trials:
            self._measure_baseline("onnxruntime", progress)
            self._measure_baseline(framework, progress)
            folder = self._folder / key
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^a-z0-9]+", "-", config.label().lower()).strip("-")
            began = monotonic()
            facts, path = keep_row(
                self._setting, config.to_dict(), folder, name=name, progress=progress
            )
            row = _row(facts, key, config.label(), config.to_dict(), monotonic() - began)
            self._trials[key] = Trial(config, row, path)
        return self._trials[key]

    def forget(self, trial: Trial) -> None:
        """Drop a trial and its model."""
        self._trials.pop(trial.row.key, None)
        shutil.rmtree(self._folder / trial.row.key, ignore_errors=True)

    def result(self, trials: Iterable[Trial] | None = None) -> StudyResult:
        """Give the trials as a study of the same rows, for the same tables and figures."""
        chosen = self.trials if trials is None else tuple(trials)
        return StudyResult(
            name="trials",
            rows=tuple(trial.row for trial in chosen),
            baselines=dict(self._baselines.items()),
        )

    def _measure_baseline(self, framework: Backend, progress: Progress) -> None:
        if framework in self._baselines:
            return
        config = {"baseline": framework}
        facts = baseline_row(self._setting, config, progress=progress)
        label = f"float {framework}"
        self._baselines[framework] = _row(facts, key_of(config=config), label, config, None)
        known = {**self._setting.baselines, framework: answers_of(facts)}
        self._setting = replace(self._setting, baselines=known)


def _row(
    facts: dict[str, Any], key: str, label: str, config: dict[str, Any], seconds: float | None
) -> StudyRow:
    head = {"key": key, "label": label, "config": config, "status": "done", "seconds": seconds}
    return StudyRow.from_dict({**head, **facts})
