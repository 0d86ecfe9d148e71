"""A quantized layer that the runtime executes as float all the same."""

from collections.abc import Iterator

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.kernels import waits_for_option
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.plain_text import many

KIND = "float-layer"
WHY = (
    "It costs no accuracy, but the time and memory of a float layer, and the integers around it "
    "are converted to float and back."
)
_MULTIPLYING_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def find(evidence: Evidence) -> Iterator[Finding]:
    """Ask the kernel map for layers with quantized weights that stay float, and why."""
    if evidence.kernels is None:
        return
    quantized = {layer.name for layer in evidence.network.layers if layer.weight is not None}
    places = [
        Place(kernel.name, kernel.why, {"op_type": kernel.op_type, "why": kernel.why})
        for kernel in evidence.kernels.layers
        if kernel.kernel == "float"
        and kernel.op_type in _MULTIPLYING_OPS
        and kernel.name in quantized
        and kernel.why is not None
        # An option of the session is no defect of the model, and a bias's scale has a finding.
        and not waits_for_option(kernel.why)
        and "bias" not in kernel.why
    ]
    if places:
        verb = "run" if len(places) > 1 else "runs"
        yield Finding(
            KIND,
            f"{many(len(places), 'quantized layer')} {verb} as float",
            WHY,
            tuple(places),
            (Remedy("quantize what it reads and writes, or leave the layer float on purpose"),),
            cost_of="nothing",
        )
