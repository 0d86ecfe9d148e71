"""The model pair that a page shows, and its images: files read once, nothing executed."""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from quantscope.app.memo import Shared, give_back
from quantscope.data import RowWishes, Samples, samples_for
from quantscope.errors import BadModelError, QuantscopeError
from quantscope.files import check_file, is_there
from quantscope.model import (
    Execution,
    Model,
    Network,
    Pairing,
    bundled_models,
    find_model,
    find_original,
    holds_weights_alone,
    open_model,
    pair_models,
    unknown_original,
)
from quantscope.zoo import read_safetensors, write_onnx


def floats_of(model: Model, given: Model | None) -> tuple[Model | None, Model | None]:
    """Give the float model to show, and the one that `model` can be compared with.

    They differ for PyTorch's programs alone: ResNet8's weights (.safetensors) are no network, so
    they are shown as the ONNX file of them, and an ONNX file that was given can only be shown.
    """
    if model.framework == "onnx" or model.executions == ("runtime",):
        found = find_original(model, given)
        return found, found if model.framework == "onnx" else None
    if given is None or given.framework == "onnx":
        program = find_original(model)
        return given or (_as_network(program) if program else None), program
    program = find_original(model, given)
    return (_as_network(program) if program else None), program


def _as_network(program: Model) -> Model:
    """Write ResNet8's weights as ONNX, once, for they are no network by themselves."""
    if program.has_network:
        return program
    bundled = bundled_models()
    if program.path == bundled["resnet8-torch"]:
        return open_model(bundled["resnet8"])
    path = Path(_folder().name) / program.digest[:16] / f"{program.path.stem}.onnx"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_onnx(read_safetensors(program.path), path)
    return open_model(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that lasts as long as the process runs."""
    return tempfile.TemporaryDirectory(prefix="quantscope-floats-")


DEFAULT_MODEL = "resnet8-int8"

_pairs, _samples = Shared(), Shared()


@dataclass(frozen=True)
class Opened:
    """A model and, if it is quantized and it is known, the float one that it was made from.

    A float model opened alone is `model`, and `is_float`. `no_float` says why a quantized model has
    no float one beside it. `original` is the float model that is shown, `compared_with` the one in
    the quantized one's own framework: only those run side by side. Where no float model is known,
    `original` is the stand-in, which the library finds by itself when `compared_with` is None.
    """

    model: Model
    original: Model | None
    pairing: Pairing | None
    no_float: str | None
    compared_with: Model | None = None

    @property
    def path(self) -> Path:
        return self.model.path

    @property
    def network(self) -> Network:
        return self.model.network

    @property
    def is_stand_in(self) -> bool:
        """Say whether `original` is the model itself with its quantizers off."""
        return self.original is not None and self.original.is_stand_in

    @property
    def known_float(self) -> Model | None:
        """Give the float original; None where the quantizers off stand in for it."""
        return None if self.is_stand_in else self.original

    @property
    def is_comparable(self) -> bool:
        """Say whether it can be compared with a float network, tensor by tensor."""
        return self.compared_with is not None or self.is_stand_in

    @property
    def float_path(self) -> Path | None:
        """The file of the float original; None where none is known."""
        return None if self.known_float is None else self.known_float.path

    @property
    def key(self) -> tuple[str, ...]:
        """Both files and their digests: equal keys give equal results under equal names."""
        key = (str(self.path), self.network.digest)
        if self.known_float is None:
            return key
        return (*key, str(self.float_path), self.known_float.network.digest)

    @property
    def is_float(self) -> bool:
        return not self.network.is_quantized

    @property
    def name(self) -> str:
        """The bundled model's short name, or the file's name."""
        return short_name(self.path)

    @property
    def executions(self) -> tuple[Execution, ...]:
        """How the quantized network can be run; none for a float model."""
        return () if self.is_float else self.model.executions


def open_pair(model: str | Path, float_model: str | Path | None = None) -> Opened:
    """Read both files, or take them from a page that shows them, if they have not changed."""
    path = _existing(model)
    given = None if float_model is None else _existing(float_model)
    key = (_stamp(path), given and _stamp(given))
    found = _pairs.get(key, lambda: _open(path, given))
    give_back()
    return found


def keep_samples(data: str, model: Model, wishes: RowWishes | None = None) -> Samples | None:
    """Load what every command's --data means for this model; None where nothing was said."""
    said = wishes is not None and wishes != RowWishes()
    if data in ("", "sample") and not said:
        return None
    path = Path(data).absolute()
    is_file = data and is_there(path)
    key = (_stamp(path) if is_file else data, model.digest, repr(wishes))
    return _samples.get(key, lambda: samples_for(model, data or None, wishes=wishes))


def short_name(path: Path) -> str:
    return next((name for name, known in bundled_models().items() if known == path), path.name)


def _open(path: Path, given: Path | None) -> Opened:
    model = open_model(path)
    if not model.network.is_quantized:
        if given is not None:
            raise BadModelError(
                f"{path.name} is a float model; give the quantized one first and the float one "
                f"as its float model"
            )
        return Opened(model, None, None, None)
    original, compared_with = floats_of(model, None if given is None else open_model(given))
    if original is None:
        return _open_alone(model)
    if original.network.is_quantized:
        raise BadModelError(
            f"{original.name} is quantized; give the float model that {path.name} was made from"
        )
    pairing = pair_models(original, model)
    if given is not None and not pairing.outputs:
        raise BadModelError(
            f"{original.name} and {path.name} have no output in common; "
            f"give the float model that {path.name} was made from"
        )
    return Opened(model, original, pairing, None, compared_with)


def _open_alone(model: Model) -> Opened:
    """Open a quantized model whose float original nobody knows: its quantizers off stand in."""
    if not model.has_stand_in:
        why = unknown_original(model, "give that one too, to compare the two")
        return Opened(model, None, None, str(why))
    try:
        stand_in = model.stand_in
        return Opened(model, stand_in, pair_models(stand_in, model), None)
    except QuantscopeError as error:
        return Opened(model, None, None, str(error))


def _existing(model: str | Path) -> Path:
    path = find_model(model, must_exist=False)
    names = ", ".join(openable_models())
    check_file(path, f"a model's path, or a bundled one: {names}", BadModelError)
    return path.absolute()


def openable_models() -> tuple[str, ...]:
    """Bundled models that are networks, quantized ones first."""
    names = [name for name, path in bundled_models().items() if not holds_weights_alone(path)]
    return tuple(sorted(names, key=lambda name: name == "resnet8"))


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        facts = path.stat()
    except OSError as error:
        raise QuantscopeError(f"Cannot read {path}: {error.strerror}") from None
    return str(path), facts.st_mtime_ns, facts.st_size
