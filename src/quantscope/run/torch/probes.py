"""Reduce the statistics of one paired activation for one batch, where the data is.

Each is a number for each image and channel, as `run/compare/sums.py` says; sums over images are
float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from quantscope.model import QuantTensor
from quantscope.model.pairing import TensorPair
from quantscope.run.compare import (
    CLIP_TOLERANCE,
    Detail,
    Pieces,
    Probe,
    clipped_sums,
    energy_sums,
    nothing_is_below,
    source_sums,
    value_sums,
)
from quantscope.run.torch.quantizers import Ends, ProgramQuantizer
from quantscope.run.torch.sources import Variants

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


@dataclass(frozen=True, eq=False)
class TorchProbe:
    """A paired activation. `axis` is that of its channels, None where it has none.

    `pieces` are what its error is taken apart with; None, and `no_sources` says why it is not.
    """

    pair: TensorPair
    quantizer: ProgramQuantizer
    axis: int | None
    is_relu: bool
    pieces: "Pieces[Node] | None"
    no_sources: str | None

    @property
    def tensor(self) -> QuantTensor:
        return self.quantizer.tensor

    @property
    def value(self) -> str:
        """The name of its dequantized value in the quantized program."""
        return self.quantizer.dequantized[0]

    def as_probe(self, sum_names: tuple[str, ...]) -> Probe:
        """Say of it what a comparison needs to know, whatever the framework."""
        return Probe(
            pair=self.pair,
            tensor=self.tensor,
            sum_names=sum_names,
            leaves=() if self.pieces is None else tuple(x.tensor for x in self.pieces.inputs),
            no_sources=self.no_sources,
        )


def difference(one: "torch.Tensor", other: "torch.Tensor") -> "torch.Tensor":
    """Give one - other in new memory; nothing is broadcast."""
    if one.shape != other.shape:
        raise ValueError(f"{tuple(one.shape)} and {tuple(other.shape)} have no difference")
    return one - other


class Measurement:
    """The `Reducer` of PyTorch: one probe on one batch, laid out [images, channels, rest]."""

    def __init__(self, probe: TorchProbe, variants: Variants, detail: Detail) -> None:
        self.probe, self.detail, self.variants = probe, detail, variants
        q = variants.quantized[probe.value]
        value = variants.floats[probe.pair.float_name]
        self.shape = q.shape
        self.float_value = self.as_quantized(value)
        self.q, self.f = self.laid_out(q), self.laid_out(self.float_value)
        self.error = difference(self.q, self.f)
        self.never_below = nothing_is_below(probe.quantizer.low, is_relu=probe.is_relu)

    def as_quantized(self, value: "torch.Tensor") -> "torch.Tensor":
        """Give a value of the float network, which may have another shape, in this one's."""
        return value if value.shape == self.shape else value.reshape(self.shape)

    def laid_out(self, value: "torch.Tensor") -> "torch.Tensor":
        """Give a value as float32 [images, channels, rest]."""
        value = value.float()
        if self.probe.axis is None or value.ndim < 2:
            return value.reshape(value.shape[0] if value.ndim > 1 else 1, 1, -1)
        if self.probe.axis != 1:
            value = value.movedim(self.probe.axis, 1)
        return value.reshape(*value.shape[:2], -1)

    def sums(self) -> "dict[str, torch.Tensor]":
        found = energy_sums(self) if self.detail == "sqnr" else value_sums(self)
        if self.detail == "full":
            b: torch.Tensor | None = None
            if self.probe.pieces is not None:
                of_sources, b = self._sources(self.probe.pieces)
                found |= of_sources
            found |= clipped_sums(self, b)
        return found

    def _sources(self, pieces: "Pieces[Node]") -> "tuple[dict[str, torch.Tensor], torch.Tensor]":
        """The sums of the sources, but for clipping, and b."""
        quantizer, variants = self.probe.quantizer, self.variants
        assert quantizer.reads is not None
        weighted = variants.weighted(pieces, variants.quantized[quantizer.reads])
        inherited = variants.inherited(pieces, weighted)
        b = self.laid_out(weighted)
        sums = source_sums(
            self,
            a=b if inherited is weighted else self.laid_out(self.as_quantized(inherited)),
            b=b,
            steps=[self.laid_out(self.as_quantized(x)) for x in variants.one_by_one(pieces)],
            inputs=len(pieces.inputs),
        )
        return sums, b

    @cached_property
    def float_min(self) -> "torch.Tensor":
        return self.least(self.f)

    @cached_property
    def float_max(self) -> "torch.Tensor":
        return self.largest(self.f)

    def least(self, value: "torch.Tensor") -> "torch.Tensor":
        return value.amin(-1)

    def largest(self, value: "torch.Tensor") -> "torch.Tensor":
        return value.amax(-1)

    def total(self, value: "torch.Tensor") -> "torch.Tensor":
        return value.sum(-1)

    def less_pivot(
        self, value: "torch.Tensor", least: "torch.Tensor", most: "torch.Tensor"
    ) -> "torch.Tensor":
        pivot = least.clamp_min(0) + most.clamp_max(0)
        return value - pivot.unsqueeze(-1) if bool(pivot.any()) else value

    def energy(self, value: "torch.Tensor") -> "torch.Tensor":
        import torch

        # One pass without a copy, where squaring first takes two.
        found: torch.Tensor = torch.linalg.vector_norm(value, dim=-1)
        return found.square_()

    def dot(self, one: "torch.Tensor", other: "torch.Tensor") -> "torch.Tensor":
        return difference(one, other).mul_(self.error).sum(-1)

    def local_error(self) -> "torch.Tensor":
        return self.laid_out(self.probe.quantizer.apply(self.float_value)).sub_(self.f)

    def count_not_zero(self) -> "torch.Tensor":
        f = self.f
        # Behind a ReLU the signs do, which is quicker.
        return f.sign().sum(-1) if self.probe.is_relu else f.count_nonzero(-1).to(f.dtype)

    def count_below(self) -> "torch.Tensor":
        low = self.probe.quantizer.low
        return self._count_above(-1, self._beyond - low, -self.float_min)

    def count_above(self) -> "torch.Tensor":
        return self._count_above(1, self.probe.quantizer.high + self._beyond, self.float_max)

    @property
    def _beyond(self) -> Ends:
        return (self.probe.quantizer.high - self.probe.quantizer.low) * CLIP_TOLERANCE

    def _count_above(self, sign: int, end: Ends, largest: "torch.Tensor") -> "torch.Tensor":
        """How many of `sign` times the float values; mostly none, which the largest ones tell."""
        import torch

        if end.size > 1:
            ends = self.probe.tensor.params.expand(end, tuple(self.shape))
            return self.laid_out(sign * self.float_value > torch.from_numpy(ends)).sum(-1)
        one = end.item()
        if not bool((largest > one).any()):
            return largest.new_zeros(largest.shape)
        return (sign * self.f - one).clamp_min_(0).sign_().sum(-1)

    def clipping(self, b: "torch.Tensor") -> "torch.Tensor":
        quantizer = self.probe.quantizer
        c = _clip(b, float(quantizer.low), float(quantizer.high))
        return b.new_zeros(b.shape[:2]) if c is b else self.dot(c, b)


def _clip(value: "torch.Tensor", low: float, high: float) -> "torch.Tensor":
    """Clip; give the same tensor where there is nothing to, which is quicker to see than to do."""
    inside = value.numel() == 0 or bool((value.amin() >= low) & (value.amax() <= high))
    return value if inside else value.clamp(low, high)


def stack_sums(sums: "Mapping[str, Mapping[str, torch.Tensor]]") -> dict[str, NDArray[Any]]:
    """Stack each tensor's sums to [images, sums, channels]; those of one shape at once."""
    import torch

    alike: dict[torch.Size, list[str]] = {}
    for name, found in sums.items():
        alike.setdefault(next(iter(found.values())).shape, []).append(name)
    result = {}
    for names in alike.values():
        block = torch.stack([each for name in names for each in sums[name].values()]).numpy()
        end = 0
        for name in names:
            start, end = end, end + len(sums[name])
            result[name] = block[start:end].transpose(1, 0, 2)
    return result
