"""Read and write ResNet8's weights, and build the network that they belong to."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from quantscope.errors import TORCH_INSTALL, BadModelError, MissingExtraError
from quantscope.files import check_file, write_whole
from quantscope.zoo.architecture import Weights, check_weights
from quantscope.zoo.onnx_resnet8 import build_onnx

if TYPE_CHECKING:
    from quantscope.zoo.torch_resnet8 import ResNet8

_MOST_BYTES = 64 * 2**20
"""The limit of a file; ResNet8's weights take 0.3 MB."""


def read_safetensors(path: Path) -> Weights:
    """Read ResNet8's weights, checked to be just that."""
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
    """Write the weights whole; give the file's sha256."""
    from safetensors.numpy import save

    return _write(path, save(dict(weights)))


def write_onnx(weights: Weights, path: Path) -> str:
    """Write the network as ONNX, whole; give the file's sha256."""
    return _write(path, build_onnx(weights).SerializeToString(deterministic=True))


def _write(path: Path, content: bytes) -> str:
    """Write a file whole; give its sha256."""
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def build_torch(weights: Weights) -> "ResNet8":
    """Build the network in PyTorch with these weights, in evaluation mode."""
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
