"""Try settings on a float model: trials that all pages share. No marimo here."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, get_args

from quantscope.app.own_lab import OwnTrial, OwnTrials
from quantscope.app.session import Session
from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.model import Model
from quantscope.progress import Progress
from quantscope.quantize import (
    ActivationType,
    Backend,
    Calibration,
    LayerOverride,
    Observer,
    PtqConfig,
    TorchQuantizer,
    WeightObserver,
    WeightType,
)
from quantscope.study import StudyConfig, Trial, Trials

SIZES = (8, 32, 128, 512)
_MOST_TRIALS = 32
_MOST_LABS = 2
_YES = {"yes": True, "no": False}


class Lab:
    """The trials of one float model, with their files in a folder that goes with it.

    They are `Trials` on CIFAR-10's images where the model is fed those, else `OwnTrials` on the
    samples at hand. `failures` are configurations that could not be had, by label, with the reason.
    """

    def __init__(self, model: Model, own: Session | None = None) -> None:
        folder = Path(tempfile.mkdtemp(prefix="quantscope-lab-"))
        # A page may still show a lab that is forgotten here: its files go when nobody has it.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.trials: Trials | OwnTrials = (
            Trials(model, folder)
            if own is None
            else OwnTrials(model, own.sample, own.measured_by, folder)
        )
        self.failures: dict[str, str] = {}
        self.shown: set[Path] = set()
        """The models that pages have opened: they are never dropped."""

    def run(self, configs: list[StudyConfig], progress: Progress) -> Iterator[None]:
        """Try them in turn, and yield after each. One that cannot be had does not end the rest."""
        for number, config in enumerate(configs, start=1):
            self.failures.pop(config.label(), None)
            try:
                told = _count_trials(progress, number, len(configs))
                self.trials.attempt(config, progress=told)
            except QuantscopeError as error:
                # The error of a single one is shown by the job itself, beside the form.
                if len(configs) == 1 or type(error).__name__ == "StoppedError":
                    raise
                self.failures[config.label()] = str(error)
            self._drop()
            yield

    def trial(self, key: str) -> Trial | OwnTrial:
        found = next((trial for trial in self.newest_first if key_in(trial) == key), None)
        if found is None:
            raise BadConfigError("This configuration is not kept any more; try it again")
        return found

    @property
    def newest_first(self) -> tuple[Trial | OwnTrial, ...]:
        kept: tuple[Trial | OwnTrial, ...] = (*self.trials.trials,)
        return kept[::-1]

    def _drop(self) -> None:
        """Forget the oldest trials beyond the bound, with their files."""
        kept: Sequence[Any] = self.trials.trials
        old = [trial for trial in kept if trial.model not in self.shown]
        for trial in old[: max(0, len(kept) - _MOST_TRIALS)]:
            self.trials.forget(trial)


def key_in(trial: Trial | OwnTrial) -> str:
    return trial.key if isinstance(trial, OwnTrial) else trial.row.key


def config_from(values: Mapping[str, Any]) -> StudyConfig:
    """Read the form's values; what is left at "" is as the framework has it."""
    given = {key: value for key, value in values.items() if value not in ("", None)}
    layers = given.pop("left_float", "")
    int8 = given.pop("int8_kernels", None)
    for key in ("per_channel", "symmetric_activations", "reduce_range"):
        given[key] = bool(given.get(key, False))
    for key in ("calibration_images", "calibration_seed", "histogram_bins"):
        if key in given:
            given[key] = _whole(key, given[key])
    if "percentile" in given:
        given["percentile"] = _number("percentile", given["percentile"])
    names = [name.strip() for name in layers.split(",") if name.strip()]
    given["overrides"] = tuple(LayerOverride(name, left_float=True) for name in names)
    return StudyConfig(PtqConfig(**given), int8_kernels=_YES.get(int8) if int8 else None)


def sizes_of(config: StudyConfig) -> list[StudyConfig]:
    """Vary the number of calibration images."""
    return [replace(config, ptq=replace(config.ptq, calibration_images=size)) for size in SIZES]


def methods_of(config: StudyConfig) -> list[StudyConfig]:
    """Try every way to find ranges that the framework has."""
    if config.ptq.framework == "torch":
        made = [
            # Options of one method do not fit the others.
            replace(config.ptq, observer=observer, torch_quantizer=None, weight_observer=None)
            for observer in get_args(Observer)
        ]
    else:
        made = [
            replace(config.ptq, calibration=method, percentile=None, histogram_bins=None)
            for method in get_args(Calibration)
        ]
    return [replace(config, ptq=ptq) for ptq in made]


def choices() -> dict[str, tuple[str, ...]]:
    """List what each field of the form can be, from the types of `PtqConfig`."""
    return {
        "framework": get_args(Backend),
        "activations": get_args(ActivationType),
        "weights": get_args(WeightType),
        "calibration": get_args(Calibration),
        "observer": get_args(Observer),
        "weight_observer": get_args(WeightObserver),
        "torch_quantizer": get_args(TorchQuantizer),
        "format": ("qdq", "qoperator"),
        "int8_kernels": tuple(_YES),
    }


def _whole(key: str, text: Any) -> int:
    value = _number(key, text)
    if value != int(value):
        raise BadConfigError(f"{key} is a whole number, not {text}")
    return int(value)


def _number(key: str, text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise BadConfigError(f"{key} is a number, not '{text}'") from None


def _count_trials(progress: Progress, number: int, total: int) -> Progress:
    """Say which of several trials the progress is of."""
    if total == 1:
        return progress
    return lambda what, done, of: progress(f"{number} of {total}: {what}", done, of)


_labs: dict[str, Lab] = {}
_lock = Lock()


def lab_of(session: Session) -> Lab:
    """Find the lab of the float model that is shown, or that the shown model was made from."""
    opened = session.opened
    model = opened.model if opened.is_float else opened.original
    if model is None or opened.is_stand_in:
        raise NoFloatError(
            "Other settings are tried on the float model, which is not known here; give it too "
            "when you open the quantized one, or open it alone"
        )
    if session.is_bundled_sample and model.framework != "onnx":
        raise QuantscopeError(
            f"{model.name} is a PyTorch program; open the float model as ONNX to quantize it here"
        )
    own = None if session.is_bundled_sample else session
    key = model.digest if own is None else f"{model.digest} {own.sample.digest} {own.measured_by}"
    with _lock:
        # Taken out and put in again: the one used longest ago stands first and goes first.
        found = _labs.pop(key, None) or Lab(model, own)
        _labs[key] = found
        while len(_labs) > _MOST_LABS:
            _labs.pop(next(iter(_labs)))
        return found


class NoFloatError(QuantscopeError):
    """The float model is missing, and giving it would help."""
