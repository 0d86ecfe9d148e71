"""The model pair that a page shows, and its images: files read once, nothing executed."""

from dataclasses import dataclass
from pathlib import Path

from quantscope.app.floats import floats_of
from quantscope.app.memo import Shared
from quantscope.data import ImageSet, load
from quantscope.errors import BadModelError, QuantscopeError
from quantscope.files import check_file, is_there
from quantscope.model import Network, Pairing, pair, read_network
from quantscope.run.onnx.sessions import Execution
from quantscope.zoo import bundled_models, find_model, unknown_float_model

DEFAULT_MODEL = "resnet8-int8"

_pairs, _images = Shared(), Shared()


@dataclass(frozen=True)
class Opened:
    """A network and, if it is quantized and it is known, the float one that it was made from.

    A float model opened alone is `network`, and `is_float`. `no_float` says why a quantized
    network has no float one beside it.
    """

    path: Path
    network: Network
    float_path: Path | None
    float_network: Network | None
    pairing: Pairing | None
    no_float: str | None
    float_program: Path | None = None
    """Of a PT2E program: the float model as PyTorch has it."""

    @property
    def compared_with(self) -> Path | None:
        """The float model in the quantized one's own kind; only those run side by side."""
        return self.float_program if self.network.format == "pt2e" else self.float_path

    @property
    def key(self) -> tuple[str, ...]:
        """Both files and their digests: equal keys give equal results under equal names."""
        key = (str(self.path), self.network.digest)
        if self.float_network is None:
            return key
        return (*key, str(self.float_path), self.float_network.digest)

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
        if self.is_float:
            return ()
        formats: dict[str, tuple[Execution, ...]] = {
            "pt2e": ("reference",),
            "torchscript": ("runtime",),
        }
        return formats.get(self.network.format, ("reference", "runtime"))


def open_pair(model: str | Path, float_model: str | Path | None = None) -> Opened:
    """Read both files, or take them from a page that shows them, if they have not changed."""
    path = _existing(model)
    given = None if float_model is None else _existing(float_model)
    key = (_stamp(path), given and _stamp(given))
    return _pairs.get(key, lambda: _open(path, given))


def kept_images(data: str) -> ImageSet | None:
    """As every command's --data means it; None for the bundled sample, which is always there."""
    if data == "sample":
        return None
    path = Path(data).absolute()
    return _images.get(_stamp(path) if is_there(path) else data, lambda: load(data))


def short_name(path: Path) -> str:
    return next((name for name, known in bundled_models().items() if known == path), path.name)


def _open(path: Path, given: Path | None) -> Opened:
    network = read_network(path)
    if not network.is_quantized:
        if given is not None:
            raise BadModelError(
                f"{path.name} is a float model; give the quantized one first and the float one "
                f"as its float model"
            )
        return Opened(path, network, None, None, None, None)
    float_path, float_program = floats_of(network, given)
    if float_path is None:
        why = unknown_float_model(network, "give that one too, to compare the two")
        return Opened(path, network, None, None, None, str(why))
    float_network = read_network(float_path)
    if float_network.is_quantized:
        raise BadModelError(
            f"{float_path.name} is quantized; give the float model that {path.name} was made from"
        )
    pairing = pair(float_network, network)
    if given is not None and not pairing.outputs:
        raise BadModelError(
            f"{float_path.name} and {path.name} have no output in common; "
            f"give the float model that {path.name} was made from"
        )
    return Opened(path, network, float_path, float_network, pairing, None, float_program)


def _existing(model: str | Path) -> Path:
    path = find_model(model, must_exist=False)
    names = ", ".join(openable_models())
    check_file(path, f"a model's path, or a bundled one: {names}", BadModelError)
    return path.absolute()


def openable_models() -> tuple[str, ...]:
    """Bundled models that are networks, quantized ones first."""
    names = [name for name, path in bundled_models().items() if path.suffix != ".safetensors"]
    return tuple(sorted(names, key=lambda name: name == "resnet8"))


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        facts = path.stat()
    except OSError as error:
        raise QuantscopeError(f"Cannot read {path}: {error.strerror}") from None
    return str(path), facts.st_mtime_ns, facts.st_size
