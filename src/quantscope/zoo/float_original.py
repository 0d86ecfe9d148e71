"""Which float model a quantized one was made from, where that is known without being told."""

import hashlib
from pathlib import Path

from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Network, load_onnx
from quantscope.model.provenance import recorded_facts
from quantscope.model.reader import TORCH_SUFFIXES
from quantscope.zoo.bundled import bundled_models, find_model, float_model_of


def known_float_model(network: Network, given: str | Path | None) -> Path | None:
    """The given float model, or the bundled one that the quantized one was made from."""
    if given is not None:
        path = find_model(given)
        if network.opset is not None and path.suffix in (".safetensors", *TORCH_SUFFIXES):
            raise BadModelError(
                f"{path.name} is a PyTorch model, but {network.path.name} is ONNX; "
                f"give its float model as .onnx (bundled: resnet8)"
            )
        return path
    bundled = float_model_of(network.path)
    if bundled is not None:
        return bundled
    digest = recorded_float_digest(network)
    for path in bundled_models().values():
        if path.suffix == ".onnx" and load_onnx(path).digest == digest:
            return path
    return None


def unknown_float_model(network: Network, how: str = "give it with --float FILE") -> BadConfigError:
    """What to raise where no float model was given and none is known; `how` one can be given."""
    name, digest = network.path.name, recorded_float_digest(network)
    if digest is None:
        return BadConfigError(f"{name} does not say which float model it was made from; {how}")
    return BadConfigError(
        f"{name} was made from a float model with SHA-256 {digest[:12]}…, which is not bundled; "
        f"{how}"
    )


def recorded_float_digest(network: Network) -> str | None:
    """Of the float model that a quantized one says it was made from."""
    digest = (recorded_facts(network.metadata) or {}).get("float_model_digest")
    if not isinstance(digest, str):
        return None
    bundled = bundled_models()
    # PyTorch's form of the bundled network; an ONNX file made from it belongs to the ONNX form.
    if network.opset is not None and digest == _digest(bundled["resnet8-torch"]):
        return _digest(bundled["resnet8"])
    return digest


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
