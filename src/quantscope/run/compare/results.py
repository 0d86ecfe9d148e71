"""The results of a comparison, as values that become JSON without a NaN or an infinity."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model import Execution, Role
from quantscope.run.deviations import OutputDeviation
from quantscope.run.origin import Origin

_WORST = 3
SCHEMA_VERSION = 2
"""2: a tensor's `channels` are there only where they are asked for; it counts them always."""


@dataclass(frozen=True)
class Spread:
    """The spread of all values of a tensor, over all images."""

    min: float
    max: float
    mean: float
    std: float


@dataclass(frozen=True)
class ErrorSources:
    """Shares of the error: inner product with the whole error over its energy. They add up to 1.

    A share is negative where a source cancels part of the others. `inherited_by_input` splits
    `inherited` over the layer's inputs: for two by what each adds alone and beside the other, half
    and half; for more in their order. `kernel` is None in reference execution, where what the file
    states is what runs.
    """

    inherited: float
    weights: float
    rounding: float
    clipping: float
    kernel: float | None
    inherited_by_input: Mapping[str, float]

    @property
    def total(self) -> float:
        return self.inherited + self.weights + self.rounding + self.clipping + (self.kernel or 0.0)


@dataclass(frozen=True)
class ChannelComparison:
    """One channel of a tensor, in the numbers that `TensorComparison` explains.

    With a scale for each channel, steps and range are the channel's own.
    """

    channel: int
    sqnr_db: float | None
    local_sqnr_db: float | None
    rmse: float | None
    clipped_low_fraction: float | None
    clipped_high_fraction: float | None
    float_min: float | None
    float_max: float | None
    quantized_min: float | None
    quantized_max: float | None
    used_share_of_range: float | None = None
    float_mean: float | None = None
    float_std: float | None = None
    quantized_mean: float | None = None
    quantized_std: float | None = None
    rmse_steps: float | None = None
    local_rmse_steps: float | None = None
    ideal_rmse_steps: float | None = None
    cosine: float | None = None


@dataclass(frozen=True)
class BlockComparison:
    """One block of a constant's channel, which has a scale of its own: what rounding did to it.

    `block` counts along the channel. `sqnr_db` is None where there is no error, or no signal;
    `used_share_of_range` is how much of its range the float values span.
    """

    channel: int
    block: int
    sqnr_db: float | None
    rmse_steps: float
    used_share_of_range: float


@dataclass(frozen=True, eq=False)
class BlockErrors:
    """All blocks of a constant, as arrays [channels, blocks]; an SQNR that is None is NaN."""

    sqnr_db: NDArray[np.float64]
    rmse_steps: NDArray[np.float64]
    used_share_of_range: NDArray[np.float64]

    @property
    def worst(self) -> tuple[BlockComparison, ...]:
        """Give up to three blocks of lowest SQNR, lowest first."""
        order = np.argsort(self.sqnr_db, axis=None, kind="stable")[:_WORST]
        places = (np.unravel_index(at, self.sqnr_db.shape) for at in order)
        found = (self.at(int(channel), int(block)) for channel, block in places)
        return tuple(block for block in found if block.sqnr_db is not None)

    def at(self, channel: int, block: int) -> BlockComparison:
        sqnr = float(self.sqnr_db[channel, block])
        return BlockComparison(
            channel,
            block,
            None if np.isnan(sqnr) else sqnr,
            float(self.rmse_steps[channel, block]),
            float(self.used_share_of_range[channel, block]),
        )

    def to_dict(self, *, every: bool) -> dict[str, Any]:
        """Give plain values, of every block if asked, else of the worst ones."""
        found: dict[str, Any] = {"block_count": self.sqnr_db.size}
        found["worst_blocks"] = [asdict(block) for block in self.worst]
        if every:
            places = np.ndindex(*self.sqnr_db.shape)
            found["blocks"] = [asdict(self.at(*place)) for place in places]
        return found


@dataclass(frozen=True)
class TensorComparison:
    """One quantized tensor beside the float one that it stands for.

    `sqnr_db` is 20 log10(|f| / |f - q|), with the error of the whole network up to here;
    `local_sqnr_db` that of this quantizer alone on the float value. Both are None where `exact`
    (no error at all), where all float values are zero, and where `not_finite_images` is not 0.
    `rmse_steps` is the whole error in steps of the quantizer, `local_rmse_steps` that of the
    quantizer alone, and `ideal_rmse_steps` what rounding alone would give: 0.289 of a step for each
    value that is not exactly zero, and nothing where all values are steps. `beyond_low_steps` and
    `beyond_high_steps` are how far beyond the range the farthest float value lies, 0 where none
    does; up to half a step it is only rounded. `used_share_of_range` is how much of the
    representable range the float values span. A weight's or bias's error is its rounding: both
    SQNRs are the same. An activation's energies are sums of float32 squares: values over 1.8e19
    are reported as not finite, and errors under 1e-22 are none.
    """

    name: str
    float_name: str
    layer: str | None
    role: Role
    bits: int
    sqnr_db: float | None
    local_sqnr_db: float | None
    exact: bool
    not_finite_images: int = 0
    clipped_low_fraction: float | None = None
    clipped_high_fraction: float | None = None
    beyond_low_steps: float | None = None
    beyond_high_steps: float | None = None
    used_share_of_range: float | None = None
    float_values: Spread | None = None
    quantized_values: Spread | None = None
    rmse_steps: float | None = None
    local_rmse_steps: float | None = None
    ideal_rmse_steps: float | None = None
    cosine: float | None = None
    sources: ErrorSources | None = None
    no_sources: str | None = None
    """The reason why there are no `sources`."""
    channels: tuple[ChannelComparison, ...] = field(default=(), repr=False)
    worst_channels: tuple[int, ...] = ()
    """The channels of lowest SQNR, lowest first; empty where there is but one channel."""
    blocks: BlockErrors | None = field(default=None, repr=False, compare=False)
    """The errors that rounding made in each block of a constant that has a scale for each."""

    def to_dict(self, *, channels: bool = False) -> dict[str, Any]:
        """Give plain values; a row for each channel, of which there may be thousands, if asked."""
        plain = replace(self, blocks=None)
        found = asdict(plain if channels else replace(plain, channels=()))
        del found["blocks"]
        if self.blocks is not None:
            found |= self.blocks.to_dict(every=channels)
        if not channels:
            del found["channels"]
        by_number = {each.channel: each.sqnr_db for each in self.channels}
        worst = [by_number[channel] for channel in self.worst_channels]
        return {**found, "channel_count": len(self.channels), "worst_channels_sqnr_db": worst}


@dataclass(frozen=True)
class Uncompared:
    """A quantized tensor that has no row, and why."""

    name: str
    role: Role
    reason: str


def why_missing(name: str, left_out: Iterable[Uncompared], known: Iterable[str]) -> str:
    """Say why there is nothing of a tensor, or what there is where the name is none."""
    reasons = (each.reason for each in left_out if each.name == name)
    return next(reasons, f"there are {', '.join(known)}")


@dataclass(frozen=True, eq=False)
class OutputAgreement:
    """The two models' scores, image by image.

    `kl_nats` is the mean over images of KL(float || quantized) of their softmax, or of the outputs
    themselves where the model ends in one, as `kl_of` says; None where a score is not finite.
    `changed` are the indices in the full set of images put into another class; `gained` and `lost`
    those of them that only the quantized, only the float model gets right; none where there are no
    labels, as `has_labels` says.
    """

    images: int
    agreeing: int
    changed: NDArray[np.int64]
    gained: NDArray[np.int64]
    lost: NDArray[np.int64]
    kl_nats: float | None
    kl_of: Literal["softmax", "output"]
    execution: Execution
    has_labels: bool = True

    @property
    def class_agreement(self) -> float:
        return self.agreeing / self.images

    def to_dict(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "agreeing": self.agreeing,
            "class_agreement": self.class_agreement,
            "changed": self.changed.tolist(),
            "gained": self.gained.tolist(),
            "lost": self.lost.tolist(),
            "kl_nats": self.kl_nats,
            "kl_of": self.kl_of,
            "has_labels": self.has_labels,
            "execution": self.execution,
        }


@dataclass(frozen=True, eq=False)
class Comparison(Origin):
    """A float and a quantized model on the same images; `tensors` along the network.

    `unpaired` have no float counterpart; `unseen` have one but could not be looked at.
    `not_finite_from` is the first tensor with a value, or a square of one, that is not finite.
    `made_from` is the digest of the float model that the quantized one says it was made from; None
    also where the float one is a program (.pt2), which may have been exported from it.
    """

    images: int
    tensors: tuple[TensorComparison, ...]
    unpaired: tuple[Uncompared, ...]
    unseen: tuple[Uncompared, ...]
    output: OutputAgreement | None
    not_finite_from: str | None
    provenance: Mapping[str, str]
    made_from: str | None = field(default=None, kw_only=True)
    no_output: str | None = field(default=None, kw_only=True)
    """The reason why there is no agreement of classes: the models are no classifiers."""
    outputs: tuple[OutputDeviation, ...] = field(default=(), kw_only=True)
    """Each output that has a row a sample, against the float model's."""
    sample_word: str = field(default="image", kw_only=True)

    def __getitem__(self, name: str) -> TensorComparison:
        found = next((tensor for tensor in self.tensors if tensor.name == name), None)
        if found is not None:
            return found
        missing = (*self.unpaired, *self.unseen)
        reason = why_missing(name, missing, (t.name for t in self.tensors))
        raise BadModelError(f"{name} of {self.model} was not compared: {reason}")

    @property
    def activations(self) -> tuple[TensorComparison, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role == "activation")

    def to_dict(self, *, channels: bool = False, tensor: str | None = None) -> dict[str, Any]:
        """Give plain values, with a row for each channel of each tensor only if asked.

        With a `tensor`, that one alone, and its channels; what is read from all stays.
        """
        from quantscope.run.compare.reading import reading, usual

        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "digest": self.digest,
            "float_model": self.float_model,
            "float_digest": self.float_digest,
            "made_from": self.made_from,
            "execution": self.execution,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "tensors": [
                each.to_dict(channels=channels or tensor is not None)
                for each in (self.tensors if tensor is None else (self[tensor],))
            ],
            "unpaired": [asdict(tensor) for tensor in self.unpaired],
            "unseen": [asdict(tensor) for tensor in self.unseen],
            "output": None if self.output is None else self.output.to_dict(),
            "no_output": self.no_output,
            "outputs": [each.to_dict() for each in self.outputs],
            "not_finite_from": self.not_finite_from,
            "usual": usual(self),
            "reading": list(reading(self)),
            "provenance": dict(self.provenance),
        }
