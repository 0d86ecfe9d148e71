"""A bias that is farther from the float one than rounding can explain."""

from collections.abc import Iterator

import numpy as np

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings.biases import added_biases
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.edit import Off
from quantscope.plain_text import many

KIND = "bias-error"
WHY = (
    "An error of a bias is added to every value of its channel, and does not average out as that "
    "of rounding does."
)
# Rounding leaves at most half a step of the sums, which is far finer than one of the output.
_BIAS_STEPS = 1.0
_OUTPUT_STEPS = 0.5


def off_biases(evidence: Evidence) -> dict[str, Place]:
    """Hold each channel's error against the step of the sums, and of the layer's output."""
    compared = {row.name: row for tensor, row in evidence.rows if tensor.role == "bias"}
    places: dict[str, Place] = {}
    for each in added_biases(evidence.network):
        row = compared.get(each.bias.name)
        out = next((o.quant for o in each.layer.outputs if o.quant), None)
        if row is None or row.exact or out is None or len(row.channels) != each.sum_scale.size:
            continue
        error = np.array([c.rmse or 0.0 for c in row.channels])
        step = float(np.max(out.params.scale))
        # Either it is not rounding, or the steps of the bias are too coarse for the output.
        bad = (error > _OUTPUT_STEPS * step) & (error > _BIAS_STEPS * each.sum_scale)
        if not bad.any():
            continue
        channel = int(np.argmax(np.where(bad, error, -1)))
        places[each.bias.name] = Place(
            each.bias.name,
            f"{int(bad.sum())} of {bad.size} channels are off by more than rounding; channel "
            f"{channel} by {error[channel]:.4g}, {error[channel] / step:.1f} steps of "
            f"{out.name}",
            {
                "channels_off": int(bad.sum()),
                "channels": int(bad.size),
                "channel": channel,
                "error": float(error[channel]),
                "error_output_steps": float(error[channel] / step),
            },
        )
    return places


def find(evidence: Evidence) -> Iterator[Finding]:
    """Tell of all biases that rounding does not explain."""
    places = off_biases(evidence)
    if places:
        names = tuple(places)
        yield Finding(
            KIND,
            f"In {many(len(places), 'layer')}, the bias is farther off than rounding explains",
            WHY,
            tuple(places.values()),
            (Remedy("keep these biases float", tuple(Off(name) for name in names)),),
            tensors=names,
        )
