"""Channels whose mean the rounding of weights has shifted."""

from collections.abc import Iterator

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings.bias_error import off_biases
from quantscope.diagnose.findings.bias_scale import off_scales
from quantscope.diagnose.findings.biases import added_biases
from quantscope.diagnose.results import Finding, Place, Remedy
from quantscope.plain_text import many
from quantscope.run import TensorComparison

KIND = "mean-shift"
WHY = (
    "An error that is the same for every value of a channel adds up in the layers behind it, and "
    "a bias can take it out at no cost."
)
_SHARE = 0.2
_SQNR_DB = 25.0
_OF_WEIGHTS = 0.5


def find(evidence: Evidence) -> Iterator[Finding]:
    """Take each tensor's error apart into the shift of its channels' means, and the rest."""
    # Biases that are wrong are findings of their own, and shift means as well.
    wrong = {name.removesuffix(".bias") for name in off_biases(evidence)}
    wrong |= {b.layer.name for b in added_biases(evidence.network) if off_scales(b)[1].any()}
    places: list[Place] = []
    for tensor, row in evidence.activations:
        share = shift_share(row)
        if share is None or share < _SHARE or row.sqnr_db is None or row.sqnr_db > _SQNR_DB:
            continue
        # What came in with the layer's inputs is told where it was made.
        if row.sources is None or row.sources.weights < _OF_WEIGHTS or tensor.producer in wrong:
            continue
        places.append(
            Place(
                tensor.name,
                f"{share:.0%} of its error is a shift of channels' means; its SQNR is "
                f"{row.sqnr_db:.1f} dB, and {row.sources.weights:.0%} of the error comes from "
                f"the layer's own weights and bias",
                {
                    "share_of_error": share,
                    "sqnr_db": row.sqnr_db,
                    "weights_share": row.sources.weights,
                },
            )
        )
    if places:
        weights = tuple(
            f"{evidence.tensors[place.where].producer}.weight"
            for place in places
            if f"{evidence.tensors[place.where].producer}.weight" in evidence.tensors
        )
        yield Finding(
            KIND,
            f"Rounded weights shift the means of {many(len(places), 'tensor')}",
            WHY,
            tuple(places),
            (
                Remedy(
                    "correct the biases by each channel's mean error",
                    cure="bias correction",
                    command="quantscope cure QUANT --bias-correction -o OUT",
                ),
                Remedy(
                    "choose which way each weight is rounded",
                    cure="rounding",
                    command="quantscope cure QUANT --rounding -o OUT",
                ),
            ),
            tensors=weights,
        )


def shift_share(row: TensorComparison) -> float | None:
    """Give the share of a tensor's error that is its channels' shifted means."""
    shift = error = 0.0
    for channel in row.channels:
        if None in (channel.rmse, channel.float_mean, channel.quantized_mean):
            return None
        assert channel.float_mean is not None and channel.quantized_mean is not None
        assert channel.rmse is not None
        shift += (channel.quantized_mean - channel.float_mean) ** 2
        error += channel.rmse**2
    return shift / error if error else None
