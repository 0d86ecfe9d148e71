"""Make one row of a PTQ study: quantize, evaluate in both executions, compare with float."""

import hashlib
import math
import platform
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from quantscope import __version__
from quantscope.data import RowWishes, Samples, load
from quantscope.errors import BadDataError, BadModelError
from quantscope.model import Execution, open_model
from quantscope.progress import Progress, silent
from quantscope.quantize import Backend, Quantized, quantize_onnx, quantize_torch
from quantscope.run import (
    MEASURES,
    Evaluation,
    Measure,
    compare_evaluations,
    cpu_name,
    evaluate,
    evaluate_outputs,
    find_measure,
    gap_between,
    gather_outputs,
    open_runnable,
    score_of_classes,
)
from quantscope.study.config import StudyConfig

THREADS = 1
"""The threads of each row: rows run side by side, and one gives the same sums everywhere."""
PACKAGES = ("numpy", "onnx", "onnxruntime", "torch", "torchao")
Answered = Mapping[str, tuple[float | None, ...]]
"""The float model's answers by execution: each sample's class if those are counted, else its score.

Nothing where the measure compares with the float model, which then has no score of its own.
"""


@dataclass(frozen=True)
class ModelFile:
    """A float model by path, or with its content, which then travels with every job."""

    name: str
    path: Path
    digest: str
    content: bytes | None = field(default=None, repr=False)

    def in_folder(self, folder: Path) -> Path:
        """Give a path to read it from; refuse a file that changed since the study began."""
        if self.content is not None:
            path = folder / f"float{Path(self.name).suffix}"
            path.write_bytes(self.content)
            return path
        try:
            found = hashlib.sha256(self.path.read_bytes()).hexdigest()
        except OSError as error:
            raise BadModelError(f"{self.path} cannot be read: {error.strerror}") from None
        if found != self.digest:
            raise BadModelError(f"{self.path} changed while the study ran; start a new study")
        return self.path


@dataclass(frozen=True)
class SamplesFile:
    """Samples as `--data` named them, and the digest they must have wherever they are loaded."""

    spec: str
    count: int | None
    digest: str
    rows: int
    wishes: RowWishes = field(default_factory=RowWishes, compare=False)

    def load(self, model: Path) -> Samples:
        """Load them for the float model, whose inputs say how; each file once a process."""
        if self not in _loaded:
            found = load(self.spec, model=open_model(model), first=self.count, wishes=self.wishes)
            found = found if self.count is None else found.take(self.count)
            if found.digest != self.digest:
                raise BadDataError(
                    f"The rows of {self.spec} are not those that the study began with"
                )
            while len(_loaded) >= _MOST_LOADED:
                _loaded.pop(next(iter(_loaded)))
            _loaded[self] = found
        return _loaded[self]


_MOST_LOADED = 2
_loaded: dict[SamplesFile, Samples] = {}


@dataclass(frozen=True)
class MeasureSpec:
    """The measure of all rows, as `--measure` names it: a worker process finds it again."""

    spec: str
    lower_is_better: bool = False

    def find(self) -> Measure:
        return _find_measure(self.spec, self.lower_is_better)


# The file of a person's own measure is run once a process.
@lru_cache(maxsize=1)
def _find_measure(spec: str, lower_is_better: bool) -> Measure:
    return find_measure(spec, lower_is_better=lower_is_better)


TOP1 = MeasureSpec("top1")


@dataclass(frozen=True)
class PtqSetting:
    """The models and samples that all rows of a study share; sent along with each."""

    models: Mapping[Backend, ModelFile]
    data: SamplesFile
    calibration: SamplesFile | None = None
    measure: MeasureSpec = TOP1
    baselines: Mapping[Backend, Answered] = field(default_factory=dict, repr=False)

    @property
    def main(self) -> Backend:
        """The backend of the model that the study is of; samples are loaded for that model."""
        return next(iter(self.models))

    def load_samples(self, file: SamplesFile, folder: Path) -> Samples:
        return file.load(self.models[self.main].in_folder(folder))


def baseline_row(
    setting: PtqSetting, config: Mapping[str, Any], *, progress: Progress = silent
) -> dict[str, Any]:
    """Evaluate the float model of the framework that the config names."""
    framework: Backend = config["baseline"]
    model = setting.models[framework]
    measure = setting.measure.find()
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        path = model.in_folder(Path(folder))
        data = setting.load_samples(setting.data, Path(folder))
        by = {
            e: _evaluate_float(path, data, e, measure, progress=progress)
            for e in _executions(framework)
        }
        size_bytes = path.stat().st_size
    first = by["reference"]
    classes = first.classes
    return {
        **{
            execution: _measured(by.get(execution), None, measure)
            for execution in ("reference", "runtime")
        },
        "by_sample": {
            "indices": first.indices.tolist(),
            "labels": None
            if classes is None or classes.targets is None
            else classes.targets.tolist(),
            "margins": None if classes is None else _plain_numbers(classes.margins),
            "class_names": None if classes is None else list(classes.names),
        },
        "size_bytes": size_bytes,
        "model_digest": model.digest,
        "provenance": _provenance(setting, framework, first),
    }


def _plain_numbers(values: Iterable[float]) -> list[float | None]:
    """Give numbers for JSON, which has none for what is not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _evaluate_float(
    path: Path, data: Samples, execution: Execution, measure: Measure, *, progress: Progress
) -> Evaluation:
    runnable = open_runnable(path, execution=execution, threads=THREADS)
    answers = gather_outputs(runnable, data, progress=progress)
    # Measured by what compares with itself, it has no score.
    return evaluate_outputs(answers, data, runnable, measure=measure)


def ptq_row(setting: PtqSetting, config: Mapping[str, Any]) -> dict[str, Any]:
    """Quantize by the config and measure what came out."""
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        return keep_row(setting, config, Path(folder))[0]


def keep_row(
    setting: PtqSetting,
    config: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "model",
    progress: Progress = silent,
) -> tuple[dict[str, Any], Path]:
    """Make a row as `ptq_row` does, and leave the model in `folder` under that name."""
    chosen = StudyConfig.from_dict(config)
    framework = chosen.ptq.framework
    source = setting.models[framework].in_folder(folder)
    data = setting.load_samples(setting.data, folder)
    calibration = setting.load_samples(setting.calibration, folder) if setting.calibration else None
    measure = setting.measure.find()
    made = _quantize(source, folder / name, chosen, calibration, progress)
    by = {
        execution: evaluate(
            made.path,
            data,
            measure=measure,
            floats=_floats(setting, framework, execution, source, data, progress),
            execution=execution,
            int8_kernels=chosen.int8_kernels if execution == "runtime" else None,
            threads=THREADS,
            progress=progress,
        )
        for execution in _executions(framework)
    }
    gap = _gap(made, by, chosen)
    baseline = setting.baselines[framework]
    row = {
        **{
            execution: _measured(by.get(execution), baseline.get(execution), measure)
            for execution in ("reference", "runtime")
        },
        "kernel_gap": gap,
        "size_bytes": made.size_bytes,
        "model_digest": made.digest,
        "warnings": list(made.warnings),
        "provenance": _provenance(setting, framework, by["reference"])
        | {
            "quantization": {k: v for k, v in made.provenance.items() if k != "config"},
            "runtime_options": dict(by["runtime"].provenance) if "runtime" in by else None,
        },
    }
    return row, made.path


def _quantize(
    source: Path,
    stem: Path,
    config: StudyConfig,
    calibration: Samples | None,
    progress: Progress,
) -> Quantized:
    if config.ptq.framework == "torch":
        output = stem.with_name(f"{stem.name}.pt2")
        return quantize_torch(
            source, output, config.ptq, calibration=calibration, progress=progress
        )
    output = stem.with_name(f"{stem.name}.onnx")
    return quantize_onnx(
        source, output, config.ptq, calibration=calibration, threads=THREADS, progress=progress
    )


def _executions(framework: Backend) -> tuple[Execution, ...]:
    return ("reference", "runtime") if framework == "onnxruntime" else ("reference",)


def _floats(
    setting: PtqSetting,
    framework: Backend,
    execution: Execution,
    source: Path,
    data: Samples,
    progress: Progress,
) -> Evaluation | None:
    """Give the float model's evaluation where the measure compares with it, run once a process."""
    measure = setting.measure.find()
    if not measure.needs_floats:
        return None
    key = (setting.models[framework].digest, execution, data.digest, setting.measure)
    if key not in _float_evaluations:
        while len(_float_evaluations) >= _MOST_FLOATS:
            _float_evaluations.pop(next(iter(_float_evaluations)))
        _float_evaluations[key] = _evaluate_float(
            source, data, execution, measure, progress=progress
        )
    return _float_evaluations[key]


_MOST_FLOATS = 3  # of both executions of an ONNX file, and of a program
_float_evaluations: dict[tuple[object, ...], Evaluation] = {}


def _gap(
    made: Quantized, by: Mapping[Execution, Evaluation], config: StudyConfig
) -> dict[str, Any] | None:
    if "runtime" not in by:
        return None
    gap = gap_between(by["reference"], by["runtime"], made.path, int8_kernels=config.int8_kernels)
    facts = gap.to_dict()
    facts["kernel_map"].pop("layers")
    return facts | {"gained": len(facts["gained"]), "lost": len(facts["lost"])}


def _measured(
    found: Evaluation | None,
    baseline: Sequence[float | None] | None,
    measure: Measure = MEASURES["top1"],
) -> dict[str, Any] | None:
    """Give what a row keeps of an evaluation; `baseline` is the float model's, if it has a score.

    What there is no label or no class for is None.
    """
    if found is None:
        return None
    facts = found.to_dict()
    keep = ("correct", "images", "accuracy", "interval_95", "loss", "not_finite", "confusion")
    counted, told = found.scored, found.tells_classes
    measured = {key: facts[key] for key in keep} | {
        "score": _score_facts(found, measure),
        # Those of right or wrong follow from the predictions.
        "per_sample": None
        if counted is None or measure == MEASURES["top1"]
        else [None if math.isnan(value) else float(value) for value in counted.per_sample],
        "sample_word": found.sample_word,
        "outputs": facts["against_float"]["outputs"] if facts["against_float"] else None,
        "kl_nats": facts["against_float"]["kl_nats"] if facts["against_float"] else None,
        "classes": [c.name for c in found.per_class] if told else None,
        "class_correct": [c.correct for c in found.per_class] if told else None,
        "class_total": [c.total for c in found.per_class] if told else None,
        "predictions": found.predictions.tolist() if found.classes is not None else None,
        "delta": None,
    }
    if baseline is not None and counted is not None:
        measured["delta"] = _change(found, baseline, measure)
    return measured


def _score_facts(found: Evaluation, measure: Measure) -> dict[str, Any]:
    """Give the score, or of the float model itself what others are measured by."""
    if found.scored is not None:
        return found.scored.to_dict()
    return {
        "measure": measure.name,
        "unit": measure.unit,
        "higher_is_better": measure.higher_is_better,
        "value": None,
        "interval_95": None,
        "interval_of": None,
        "samples": found.images,
    }


def _change(
    found: Evaluation, baseline: Sequence[float | None], measure: Measure
) -> dict[str, Any] | None:
    """Compare with the float model, sample by sample; None where too few samples have a number."""
    pair = compare_evaluations(found, _float_evaluation(found, baseline, measure))
    interval = pair.scores.interval_95
    if interval is None:
        return None
    told = pair.tells_classes
    changes = pair.per_class
    worst = min(
        (c for c in changes if c.delta is not None), key=lambda c: c.delta or 0.0, default=None
    )
    return {
        "delta": pair.delta,
        "interval_95": list(interval),
        "interval_of": pair.scores.interval_of,
        "p_value": pair.p_value,
        "p_of": pair.scores.p_of,
        "gained": len(pair.gained),
        "lost": len(pair.lost),
        "changed": len(pair.changed),
        "class_changes": [c.delta for c in changes],
        "worst_class": worst.name if worst else None,
        "worst_class_change": worst.delta if worst else None,
        "confusion_change": pair.confusion_change.tolist() if told else [],
    }


def _float_evaluation(
    found: Evaluation, baseline: Sequence[float | None], measure: Measure
) -> Evaluation:
    """Put the float model's classes or scores into an evaluation; only those matter for pairs."""
    if measure == MEASURES["top1"]:
        assert found.classes is not None, "what is right or wrong has classes"
        classes = replace(found.classes, predictions=np.array(baseline, dtype=np.int64))
        return replace(found, classes=classes, scored=score_of_classes(classes))
    numbers = np.array([math.nan if value is None else value for value in baseline])
    return replace(found, classes=None, scored=replace(found.score, per_sample=numbers))


def _provenance(setting: PtqSetting, framework: Backend, of: Evaluation) -> dict[str, Any]:
    model = setting.models[framework]
    return {
        "float_model": {"name": model.name, "digest": model.digest},
        "data": {"name": of.data, "images": of.images, "digest": of.data_digest},
        "threads": THREADS,
        "cpu": cpu_name(),
        "platform": platform.platform(terse=True),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Give the versions of all that a row follows from; with another it is another row."""
    own = {"quantscope": __version__, "python": platform.python_version()}
    return own | {name: found for name in PACKAGES if (found := _version(name))}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
