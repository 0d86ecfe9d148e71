"""Make one row of a PTQ study: quantize, evaluate in both executions, compare with float."""

import hashlib
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from quantscope import __version__
from quantscope.data import Samples, load, load_npz
from quantscope.errors import BadDataError, BadModelError
from quantscope.model import Execution
from quantscope.progress import Progress, silent
from quantscope.quantize import Backend, Quantized, quantize_onnx, quantize_torch
from quantscope.run import (
    Evaluation,
    compare_evaluations,
    cpu_name,
    evaluate,
    gap_between,
    score_of_classes,
)
from quantscope.study.config import StudyConfig

THREADS = 1
"""The threads of each row: rows run side by side, and one gives the same sums everywhere."""
PACKAGES = ("numpy", "onnx", "onnxruntime", "torch", "torchao")
Predictions = Mapping[str, tuple[int, ...]]
"""The float model's classes by execution, image by image."""


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
class ImagesFile:
    """A set of images as `--data` named it, and the digest it must have wherever it is loaded."""

    spec: str
    count: int | None
    digest: str


@dataclass(frozen=True)
class PtqSetting:
    """The models and images that all rows of a study share; sent along with each."""

    models: Mapping[Backend, ModelFile]
    data: ImagesFile
    calibration: ImagesFile | None = None
    baselines: Mapping[Backend, Predictions] = field(default_factory=dict, repr=False)


def baseline_row(
    setting: PtqSetting, config: Mapping[str, Any], *, progress: Progress = silent
) -> dict[str, Any]:
    """Evaluate the float model of the framework that the config names."""
    framework: Backend = config["baseline"]
    model = setting.models[framework]
    data = _images(setting.data)
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        path = model.in_folder(Path(folder))
        executions = _executions(framework)
        by = {
            e: evaluate(path, data, execution=e, threads=THREADS, progress=progress)
            for e in executions
        }
        size_bytes = path.stat().st_size
    first = by["reference"]
    return {
        **{execution: _measured(by.get(execution), None) for execution in ("reference", "runtime")},
        "size_bytes": size_bytes,
        "model_digest": model.digest,
        "provenance": _provenance(setting, framework, first),
    }


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
    data = _images(setting.data)
    calibration = _images(setting.calibration) if setting.calibration else None
    source = setting.models[framework].in_folder(folder)
    made = _quantize(source, folder / name, chosen, calibration, progress)
    by = {
        execution: evaluate(
            made.path,
            data,
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
            execution: _measured(by.get(execution), baseline.get(execution))
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


# An .npz is read once a process, not once a row.
@lru_cache(maxsize=2)
def _images(file: ImagesFile) -> Samples:
    if file.spec in ("sample", "full"):
        images = load(file.spec)
    else:
        images = load_npz(file.spec, first=file.count)
    images = images if file.count is None else images.take(file.count)
    if images.digest != file.digest:
        raise BadDataError(f"The images of {file.spec} are not those that the study began with")
    return images


def _gap(
    made: Quantized, by: Mapping[Execution, Evaluation], config: StudyConfig
) -> dict[str, Any] | None:
    if "runtime" not in by:
        return None
    gap = gap_between(by["reference"], by["runtime"], made.path, int8_kernels=config.int8_kernels)
    facts = gap.to_dict()
    facts["kernel_map"].pop("layers")
    return facts | {"gained": len(facts["gained"]), "lost": len(facts["lost"])}


def _measured(found: Evaluation | None, baseline: tuple[int, ...] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    facts = found.to_dict()
    keep = ("correct", "images", "accuracy", "interval_95", "loss", "not_finite", "confusion")
    measured = {key: facts[key] for key in keep} | {
        "classes": [c.name for c in found.per_class],
        "class_correct": [c.correct for c in found.per_class],
        "class_total": [c.total for c in found.per_class],
        "predictions": found.predictions.tolist(),
        "delta": None,
    }
    if baseline is None:
        return measured
    # Only predictions and labels matter for pairs; the rest stays this evaluation's.
    pair = compare_evaluations(found, _with_predictions(found, baseline))
    changes = pair.per_class
    worst = min(
        (c for c in changes if c.delta is not None), key=lambda c: c.delta or 0.0, default=None
    )
    measured["delta"] = {
        "delta": pair.delta,
        "interval_95": list(pair.interval_95),
        "p_value": pair.p_value,
        "gained": len(pair.gained),
        "lost": len(pair.lost),
        "changed": len(pair.changed),
        "class_changes": [c.delta for c in changes],
        "worst_class": worst.name if worst else None,
        "worst_class_change": worst.delta if worst else None,
        "confusion_change": pair.confusion_change.tolist(),
    }
    return measured


def _with_predictions(found: Evaluation, predictions: tuple[int, ...]) -> Evaluation:
    assert found.classes is not None, "a study is of classifiers"
    seen = np.array(predictions, dtype=np.int64)
    classes = replace(found.classes, predictions=seen)
    return replace(found, classes=classes, scored=score_of_classes(classes))


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
