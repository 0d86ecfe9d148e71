"""Settle what all rows of a study share, before any is made: samples, calibration, the measure."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from quantscope.data import RowWishes, Samples, load, takes_cifar10, usual_data
from quantscope.errors import BadConfigError
from quantscope.model import Model
from quantscope.quantize import Backend
from quantscope.run import MEASURES, find_measure, gather_outputs, open_runnable, pick_measure
from quantscope.study.config import StudyPlan
from quantscope.study.ptq import MeasureSpec, ModelFile, PtqSetting, SamplesFile

CIFAR10 = ("sample", "full")
_RANDOM = "random"
_MOST_RANDOM = 256
_ENOUGH = 2  # rows to see what the model gives, whatever it takes at once


def settle(
    model: Model,
    models: Mapping[Backend, ModelFile],
    *,
    data: str | None,
    images: int | None,
    calibration_data: str | None,
    rows: RowWishes | None,
    measure: str | None,
    lower_is_better: bool,
    most_calibration: int,
) -> PtqSetting:
    """Load what was named once, and try the measure on it: what is wrong is told before any work.

    `most_calibration` is the largest number of calibration rows that a configuration asks for.
    """
    wishes = rows or RowWishes()
    spec = usual_data(model, rows) if data is None else data
    if spec == _RANDOM and images is not None:
        spec = f"{_RANDOM}:{images}"
    samples, file = _load(model, spec, images, wishes)
    if calibration_data is None and not takes_cifar10(model):
        if not samples.is_random:
            raise BadConfigError(
                f"{model.name} does not take CIFAR-10's training images, so nothing calibrates it; "
                f"give rows that --data does not have with --calibration-data FILE.npz, or "
                f"--calibration-data random"
            )
        calibration_data = _RANDOM
    calibration = None
    if calibration_data is not None:
        named = calibration_data
        if named == _RANDOM:
            named = f"{_RANDOM}:{min(most_calibration, _MOST_RANDOM)}"
        # Not the rows that are measured with.
        _, calibration = _load(model, named, None, replace(wishes, seed=wishes.seed + 1))
    chosen = _measure(model, samples, measure, lower_is_better=lower_is_better)
    return PtqSetting(models=models, data=file, calibration=calibration, measure=chosen)


def _load(
    model: Model, spec: str, count: int | None, wishes: RowWishes
) -> tuple[Samples, SamplesFile]:
    loaded = load(spec, model=model, first=count, wishes=wishes)
    if count is not None and not 1 <= count <= len(loaded):
        raise BadConfigError(f"--images {count} is not possible: {loaded.name} has {len(loaded)}")
    chosen = loaded if count is None else loaded.take(count)
    is_name = spec in CIFAR10 or spec.partition(":")[0] == _RANDOM
    path = spec if is_name else str(Path(spec).absolute())
    return chosen, SamplesFile(path, count, chosen.digest, len(chosen), wishes)


def samples_file(model: Model, spec: str) -> SamplesFile:
    """Name samples of a model so that each row can load them."""
    return _load(model, spec, None, RowWishes())[1]


def _measure(
    model: Model, samples: Samples, wanted: str | None, *, lower_is_better: bool
) -> MeasureSpec:
    """Find what is counted, and try it on what the float model gives for a few rows."""
    if wanted is None and lower_is_better:
        raise BadConfigError("--lower-is-better goes with --measure FILE.py:FUNCTION")
    named = None if wanted is None else find_measure(wanted, lower_is_better=lower_is_better)
    few = samples.take(min(_ENOUGH, len(samples)))
    runnable = open_runnable(model, execution="reference", threads=1)
    found = gather_outputs(runnable, few)
    if named is None:
        # By all labels: those of a few rows may be of anything.
        named = pick_measure(found.outputs, samples, probabilities=runnable.gives_probabilities)
        wanted = next(name for name, known in MEASURES.items() if known == named)
    assert wanted is not None
    named.count(found.outputs, few, found.outputs)
    return MeasureSpec(_absolute(wanted), lower_is_better)


def _absolute(spec: str) -> str:
    """Give a function's file by its whole path: workers may run elsewhere."""
    if spec in MEASURES:
        return spec
    file, _, function = spec.rpartition(":")
    return f"{Path(file).absolute()}:{function}"


def measure_identity(measure: MeasureSpec) -> tuple[str, str]:
    """Give a measure's name for people, and what tells it from others: a function by its file."""
    if measure.spec in MEASURES:
        return MEASURES[measure.spec].name, measure.spec
    file, _, function = measure.spec.rpartition(":")
    path = Path(file)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    better = "lower" if measure.lower_is_better else "higher"
    return f"{path.name}:{function}", f"{digest} {function} {better}"


def fit_calibration(plan: StudyPlan, setting: PtqSetting) -> StudyPlan:
    """Bound the calibration rows of each configuration by those that there are."""
    if setting.calibration is None:
        return plan
    there = setting.calibration.rows
    configs = tuple(
        replace(
            config,
            ptq=replace(config.ptq, calibration_images=min(config.ptq.calibration_images, there)),
        )
        for config in plan.configs
    )
    if configs == plan.configs:
        return plan
    asked = sorted(
        {c.ptq.calibration_images for c in plan.configs if c.ptq.calibration_images > there}
    )
    said = (
        f"calibration_images = {', '.join(map(str, asked))}: there are {there} rows to calibrate "
        f"with, and all of them were taken"
    )
    return StudyPlan(plan.name, tuple(dict.fromkeys(configs)), (*plan.skipped, said))
