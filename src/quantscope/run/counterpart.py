"""The float network's value for a place in a quantized one: by layer name, past a folded ReLU."""

import json
from pathlib import Path

from quantscope.errors import BadModelError
from quantscope.model import Network, QuantTensor, load_onnx
from quantscope.model.network import PROVENANCE_KEY
from quantscope.zoo import bundled_models, find_model, float_model_of


def known_float_model(network: Network, given: str | Path | None) -> Path | None:
    """The given float model, or the bundled one that the quantized one was made from."""
    if given is not None:
        return find_model(given)
    bundled = float_model_of(network.path)
    if bundled is not None:
        return bundled
    try:
        facts = json.loads(network.metadata.get(PROVENANCE_KEY, "{}"))
    except ValueError:
        return None
    digest = facts.get("float_model_digest") if isinstance(facts, dict) else None
    for path in bundled_models().values():
        if path.suffix == ".onnx" and path.exists() and load_onnx(path).digest == digest:
            return path
    return None


def float_tensor_of(float_network: Network, layer: str, output: QuantTensor | None) -> str:
    """The file's name of what the float network has where the quantized layer's output is."""
    if float_network.is_quantized:
        raise BadModelError(
            f"{float_network.path.name} is quantized; give the float model that it was made from"
        )
    found = float_network.layer(layer).outputs[0].name
    readers = [x for x in float_network.layers if any(o.name == found for o in x.inputs)]
    clips = output is not None and output.clips_negatives
    if clips and len(readers) == 1 and readers[0].op_type in ("Relu", "Clip"):
        return readers[0].outputs[0].name
    return found
