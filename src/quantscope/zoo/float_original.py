"""Which float model a quantized one was made from, where that is known without being told."""

import hashlib
import json
from pathlib import Path

from quantscope.model import Network, load_onnx
from quantscope.model.network import PROVENANCE_KEY
from quantscope.zoo.bundled import bundled_models, find_model, float_model_of


def known_float_model(network: Network, given: str | Path | None) -> Path | None:
    """The given float model, or the bundled one that the quantized one was made from."""
    if given is not None:
        return find_model(given)
    bundled = float_model_of(network.path)
    if bundled is not None:
        return bundled
    digest = recorded_float_digest(network)
    for path in bundled_models().values():
        if path.suffix == ".onnx" and path.exists() and load_onnx(path).digest == digest:
            return path
    return None


def recorded_float_digest(network: Network) -> str | None:
    """Of the float model that a quantized one says it was made from."""
    try:
        facts = json.loads(network.metadata.get(PROVENANCE_KEY, "{}"))
    except ValueError:
        return None
    digest = facts.get("float_model_digest") if isinstance(facts, dict) else None
    if not isinstance(digest, str):
        return None
    bundled = bundled_models()
    # PyTorch's form of the bundled network; an ONNX file made from it belongs to the ONNX form.
    if network.opset is not None and digest == _digest(bundled["resnet8-torch"]):
        return _digest(bundled["resnet8"])
    return digest


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
