"""Turn what a person gave, or did not give, into the samples that a model is fed.

This is the one place of that: commands, the page and every function of the library that takes
samples come here.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy.typing as npt

from quantscope.data.cifar10 import fits_cifar10, load_full, load_sample
from quantscope.data.intake import check_samples
from quantscope.data.npz import load_npz
from quantscope.data.pictures import load_pictures
from quantscope.data.random_rows import random_samples
from quantscope.data.samples import Samples
from quantscope.data.wishes import RowWishes
from quantscope.errors import BadConfigError, BadDataError
from quantscope.files import is_folder, is_there
from quantscope.model import Model, find_batching

Arrays = Mapping[str, npt.ArrayLike]
SamplesSource = Samples | str | Path | Arrays | Iterable[Arrays]
"""Samples are made of a name or path, of arrays by the inputs' names, or of batches of those.

Names are "sample" and "full" (CIFAR-10's test images), "random" and "random:N"; paths are those of
.npz files and folders of pictures. Among arrays by name, `labels` are class numbers.
"""

_RANDOM = "random"
_CIFAR10 = {"sample", "full"}
_CIFAR_CLASSES = 10


def load(
    spec: str | Path,
    *,
    model: Model | None = None,
    first: int | None = None,
    wishes: RowWishes | None = None,
) -> Samples:
    """Load what every command's --data names, as `SamplesSource` says.

    Arrays of a file are those named as the model's inputs; random rows need the model. No more than
    the `first` rows are read.
    """
    spec, wishes = str(spec), wishes or RowWishes()
    if spec == _RANDOM or spec.startswith(f"{_RANDOM}:"):
        _check_unused(spec, wishes, shapes=True)
        if model is None:
            raise BadDataError("Random rows are made from a model's inputs; say of which model")
        count = _random_count(spec)
        if first is not None:
            count = first if count is None else min(count, first)
        return random_samples(model, count, shapes=wishes.shapes, seed=wishes.seed)
    if spec not in _CIFAR10 and is_folder(Path(spec)):
        return load_pictures(spec, model=model, wishes=wishes, first=first)
    _check_unused(spec, wishes, shapes=False)
    if spec == "sample":
        return load_sample()
    if spec == "full":
        return load_full("test")
    if not spec.endswith(".npz") and not is_there(Path(spec)):
        raise BadDataError(
            f"There is no data '{spec}'; give sample, full, random, random:N, or the path of a "
            f".npz file or of a folder of pictures"
        )
    inputs = () if model is None else tuple(port.name for port in model.inputs)
    return load_npz(spec, inputs=inputs, first=first)


def samples_for(
    model: Model,
    given: SamplesSource | None = None,
    *,
    first: int | None = None,
    wishes: RowWishes | None = None,
) -> Samples:
    """Give the samples to use for a model; `describe_origin` says what they are.

    Where nothing is given they are CIFAR-10's bundled images if the model takes those, and random
    rows for any other.
    """
    if given is None:
        given = usual_data(model, wishes)
    if isinstance(given, Samples):
        check_samples(given)
        return given
    if isinstance(given, str | Path):
        return load(given, model=model, first=first, wishes=wishes)
    if isinstance(given, Mapping):
        arrays = {name: array for name, array in given.items() if name != "labels"}
        # An input may have the name "labels" itself.
        if any(port.name == "labels" for port in model.inputs):
            return Samples.from_arrays("given arrays", given)
        return Samples.from_arrays("given arrays", arrays, given.get("labels"))
    if isinstance(given, Iterable) and not isinstance(given, bytes):
        return Samples.from_batches("given batches", given)
    raise BadDataError(
        f"Samples are no {type(given).__name__}; give arrays by the inputs' names, a generator of "
        f"those, or what --data takes"
    )


def usual_data(model: Model, wishes: RowWishes | None = None) -> str:
    """Name what is used for a model where nobody named any data."""
    said = wishes is not None and (wishes.shapes or wishes.pictures.given)
    return "sample" if takes_cifar10(model) and not said else _RANDOM


def takes_cifar10(model: Model) -> bool:
    """Say whether CIFAR-10's images fit: one input of 3x32x32 or 32x32x3, and ten scores."""
    ports, outputs = model.inputs, model.outputs
    if len(ports) != 1 or not outputs:
        return False
    row = find_batching(ports, outputs).row_shape(0, ports[0])
    scores = outputs[0].shape
    last = scores[-1] if scores else _CIFAR_CLASSES
    return fits_cifar10(row, ports[0].dtype) and (
        not isinstance(last, int) or last == _CIFAR_CLASSES
    )


def _random_count(spec: str) -> int | None:
    if spec == _RANDOM:
        return None
    text = spec.removeprefix(f"{_RANDOM}:")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadConfigError(
            f"--data random:N has the number of rows as N, such as random:64, not '{text}'"
        )
    return int(text)


def _check_unused(spec: str, wishes: RowWishes, *, shapes: bool) -> None:
    """Refuse options for other data than that which is given."""
    if wishes.pictures.given:
        raise BadConfigError(
            f"{' and '.join(wishes.pictures.given)} say how a folder of pictures is read; "
            f"--data {spec} is none"
        )
    if wishes.shapes and not shapes:
        raise BadConfigError(
            f"--shape is for random rows and folders of pictures; those of --data {spec} have "
            f"their own"
        )
