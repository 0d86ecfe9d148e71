"""Find the float network's value for a quantized layer: by layer name, past a folded ReLU."""

from quantscope.errors import BadModelError
from quantscope.model import Network, QuantTensor


def name_float_value(float_network: Network, layer: str, output: QuantTensor | None) -> str:
    """Name the float file's value that stands where the quantized layer's output is."""
    if float_network.is_quantized:
        raise BadModelError(
            f"{float_network.path.name} is quantized; give the float model that it was made from"
        )
    found = float_network.layer(layer).outputs[0].name
    readers = [x for x in float_network.layers if any(o.name == found for o in x.inputs)]
    # A quantizer that clips negatives does the ReLU's work; the float network still has the ReLU.
    clips = output is not None and output.clips_negatives
    if clips and len(readers) == 1 and readers[0].op_type in ("Relu", "Clip"):
        return readers[0].outputs[0].name
    return found
