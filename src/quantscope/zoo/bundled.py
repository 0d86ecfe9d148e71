"""The models that come with the package, and reading and writing ResNet8's weights."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from quantscope.errors import TORCH_INSTALL, BadModelError, MissingExtraError
from quantscope.files import BUNDLED, check_file, is_there, write_whole
from quantscope.zoo.architecture import Weights, check_weights
from quantscope.zoo.onnx_resnet8 import build_onnx

if TYPE_CHECKING:
    from quantscope.zoo.torch_resnet8 import ResNet8

_BUNDLED = {
    "resnet8": "resnet8.onnx",
    "resnet8-int8": "resnet8-int8.onnx",
    "resnet8-uint8": "resnet8-uint8.onnx",
    "resnet8-torch": "resnet8.safetensors",
}
_MOST_BYTES = 64 * 2**20
"""ResNet8's weights take 0.3 MB."""

_FLOAT_OF = {"resnet8-int8": "resnet8", "resnet8-uint8": "resnet8"}


def bundled_models() -> dict[str, Path]:
    """Short name -> file. The names are accepted wherever a model's path is."""
    return {name: BUNDLED / file for name, file in _BUNDLED.items()}


def find_model(name: str | Path, *, must_exist: bool = True) -> Path:
    """The path of a bundled model's name, or of a file as it is. A file of that name wins."""
    found = Path(name)
    by_name = bundled_models()
    if not is_there(found):
        by_file = {bundled.name: bundled for bundled in by_name.values()}
        found = by_name.get(str(name)) or by_file.get(str(name)) or found
    if must_exist:
        check_file(found, f"a model's path, or a bundled one: {', '.join(by_name)}", BadModelError)
    return found


def float_model_of(name: str | Path) -> Path | None:
    """The float original of a bundled quantized model, by name or path; None for any other."""
    path, files = find_model(name, must_exist=False), bundled_models()
    floats = (files[float_name] for name, float_name in _FLOAT_OF.items() if files[name] == path)
    return next(floats, None)


def read_safetensors(path: Path) -> Weights:
    """ResNet8's weights, checked to be just that."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    check_file(
        path, "ResNet8's weights as .safetensors", kind=BadModelError, most_bytes=_MOST_BYTES
    )
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, TypeError) as error:
        raise BadModelError(f"{path.name} is not a readable safetensors file ({error})") from None
    check_weights(weights, source=path.name)
    return weights


def write_safetensors(weights: Weights, path: Path) -> str:
    """Write the weights whole; returns the file's sha256."""
    from safetensors.numpy import save

    return _written(path, save(dict(weights)))


def write_onnx(weights: Weights, path: Path) -> str:
    """Write the network as ONNX, whole; returns the file's sha256."""
    return _written(path, build_onnx(weights).SerializeToString(deterministic=True))


def _written(path: Path, content: bytes) -> str:
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def build_torch(weights: Weights) -> "ResNet8":
    """The network in PyTorch with these weights, in evaluation mode."""
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"PyTorch is needed for this and is not installed; install it with: {TORCH_INSTALL}"
        ) from None
    from quantscope.zoo.torch_resnet8 import ResNet8

    model = ResNet8()
    model.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in weights.items()})
    return model.eval()
