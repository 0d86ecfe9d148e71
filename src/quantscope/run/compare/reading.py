"""Say in plain sentences what is normal in a comparison, what stands out and by how much.

It shows; it does not decide.
"""

from collections.abc import Iterator
from statistics import median

from quantscope.arithmetic import DECIBELS_A_BIT
from quantscope.run.compare.results import Comparison, TensorComparison

# From where on a tensor stands out: fractions of its values, dB below the usual, a share of the
# range, the dB below which a bias counts as poor, and a share of the error.
_CLIPPED = 0.001
_DECIBELS = 6.0
_CHANNEL_DECIBELS = 12.0
_NARROW = 0.25
_POOR_BIAS = 40.0
_KERNEL = 0.1


def reading(comparison: Comparison) -> tuple[str, ...]:
    """Write one sentence for each tensor that stands out, along the network."""
    another = from_another(
        comparison.model, comparison.made_from, comparison.float_model, comparison.float_digest
    )
    first = () if another is None else (another,)
    if comparison.not_finite_from:
        return (*first, f"{comparison.not_finite_from}; nothing after it can be read.")
    medians = _usual(comparison)
    sentences = (_sentence(tensor, medians) for tensor in comparison.tensors)
    return (*first, *(sentence for sentence in sentences if sentence))


def from_another(model: str, made_from: str | None, given: str, digest: str) -> str | None:
    """Say that the quantized model was made from another float model; None where it was not."""
    if made_from in (None, digest):
        return None
    return (
        f"{model} says that it was made from another float model than {given} (SHA-256 "
        f"{made_from[:12]}…, given {digest[:12]}…): what the two differ in counts as error here."
    )


def usual(comparison: Comparison) -> str | None:
    """Say what is normal here, against which tensors stand out; None where there are too few."""
    medians = _usual(comparison)
    roles = [(role, bits) for role, bits in medians if role != "bias"]
    if not roles:
        return None
    found = ", ".join(
        f"{bits}-bit {_plural(role)} {medians[role, bits]:.1f} dB" for role, bits in roles
    )
    widths = sorted({bits for _, bits in roles})
    full = " and ".join(f"{DECIBELS_A_BIT * bits:.0f} dB at {bits} bits" for bits in widths)
    return (
        f"Usual in this model for a quantizer alone (medians): {found}. Values spread evenly over "
        f"a range around zero would have {full}; rounding costs them 0.29 steps."
    )


def flag_tensors(comparison: Comparison) -> frozenset[str]:
    medians = _usual(comparison)
    return frozenset(t.name for t in comparison.tensors if _sentence(t, medians))


def _usual(comparison: Comparison) -> dict[tuple[str, int], float]:
    """Find the median local SQNR in dB of each role and number of bits that has three or more."""
    groups: dict[tuple[str, int], list[float]] = {}
    for tensor in comparison.tensors:
        if tensor.local_sqnr_db is not None:
            groups.setdefault((tensor.role, tensor.bits), []).append(tensor.local_sqnr_db)
    return {key: median(values) for key, values in groups.items() if len(values) > 2}


def _sentence(tensor: TensorComparison, medians: dict[tuple[str, int], float]) -> str | None:
    points = list(_points(tensor, medians))
    return f"{tensor.name}: {'; '.join(points)}." if points else None


def _points(tensor: TensorComparison, medians: dict[tuple[str, int], float]) -> Iterator[str]:
    normal = medians.get((tensor.role, tensor.bits))
    local = tensor.local_sqnr_db
    stands_out = normal is not None and local is not None and normal - local > _DECIBELS
    if tensor.role == "bias" and local is not None and local > _POOR_BIAS:
        stands_out = False  # 32 bits: what is left is far below any other error
    if stands_out and normal is not None and local is not None:
        less = round(normal, 1) - round(local, 1)  # of the numbers as they are shown
        yield (
            f"its own quantizer leaves {local:.1f} dB where {normal:.1f} dB is usual for the "
            f"{tensor.bits}-bit {_plural(tensor.role)} of this model, {less:.1f} dB less"
        )
    if normal is not None and tensor.role == "weight":
        yield from _poor_channels(tensor, normal)
    for fraction, steps, end in (
        (tensor.clipped_low_fraction, tensor.beyond_low_steps, "low"),
        (tensor.clipped_high_fraction, tensor.beyond_high_steps, "high"),
    ):
        # Up to half a step beyond the end costs no more than rounding does.
        if fraction is not None and fraction > _CLIPPED and (steps is None or steps > 0.5):
            far = "" if steps is None else f", by up to {steps:.1f} steps"
            yield f"{fraction:.2%} of its float values are clipped at the {end} end{far}"
    rmse, ideal = tensor.local_rmse_steps, tensor.ideal_rmse_steps
    if rmse is not None and ideal and rmse > 1.5 * ideal:
        yield (
            f"its quantizer's error is {rmse:.2f} steps where rounding alone gives {ideal:.2f}, "
            f"{rmse / ideal:.1f} times as much"
        )
    used = tensor.used_share_of_range
    if used is not None and used < _NARROW and tensor.role != "bias":
        yield f"its values use {used:.0%} of what {tensor.bits} bits can represent"
    kernel = tensor.sources.kernel if tensor.sources is not None else None
    if kernel is not None and abs(kernel) > _KERNEL:
        yield (
            f"{kernel:.0%} of its error is the kernel's, which gives other integers than the file "
            f"states; in most kernels this is none"
        )


def _poor_channels(tensor: TensorComparison, normal: float) -> Iterator[str]:
    known = [(c.sqnr_db, c.channel) for c in tensor.channels if c.sqnr_db is not None]
    poor = [each for each in known if each[0] < normal - _CHANNEL_DECIBELS]
    if poor and len(tensor.channels) > 1:
        lowest, channel = min(poor)
        yield (
            f"{len(poor)} of its {len(tensor.channels)} channels {_be(len(poor))} more than "
            f"{_CHANNEL_DECIBELS:.0f} dB below the {normal:.1f} dB that are usual for weights, "
            f"channel {channel} at {lowest:.1f} dB"
        )


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _plural(role: str) -> str:
    return "biases" if role == "bias" else f"{role}s"
