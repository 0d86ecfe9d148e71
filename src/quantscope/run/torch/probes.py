"""Reduce the statistics of one paired activation for one batch, where the data is.

Each is a number for each image and channel, as in `run/onnx/compare/graph.py`; sums over images
are float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from quantscope.model import QuantTensor
from quantscope.model.pairing import TensorPair
from quantscope.run.compare.layout import CLIP_TOLERANCE
from quantscope.run.compare.pair import Detail, Probe
from quantscope.run.torch.quantizers import Ends, ProgramQuantizer
from quantscope.run.torch.sources import Pieces, Variants

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TorchProbe:
    """A paired activation. `axis` is that of its channels, None where it has none.

    `pieces` are what its error is taken apart with; None, and `no_sources` says why it is not.
    """

    pair: TensorPair
    quantizer: ProgramQuantizer
    axis: int | None
    is_relu: bool
    pieces: Pieces | None
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


class Scratch:
    """Memory for differences that nobody keeps: fresh memory would be cold, and cost the most."""

    def __init__(self) -> None:
        self._held: dict[str, torch.Tensor] = {}
        self._views: dict[tuple[str, torch.Size], torch.Tensor] = {}

    def difference(self, use: str, one: "torch.Tensor", other: "torch.Tensor") -> "torch.Tensor":
        """Give one - other, valid until the next of the same `use`; nothing is broadcast."""
        import torch

        if one.shape != other.shape:
            raise ValueError(f"{tuple(one.shape)} and {tuple(other.shape)} have no difference")
        view = self._views.get((use, one.shape))
        if view is None:
            view = self._views[use, one.shape] = self._view(use, one)
        return torch.sub(one, other, out=view)

    def _view(self, use: str, like: "torch.Tensor") -> "torch.Tensor":
        held = self._held.get(use)
        if held is None or held.numel() < like.numel():
            held = self._held[use] = like.new_empty(like.numel())
            self._views = {key: view for key, view in self._views.items() if key[0] != use}
        return held[: like.numel()].view(like.shape)


class Measurement:
    """One probe on one batch: `q`, `f` and their difference laid out [images, channels, rest]."""

    def __init__(
        self, probe: TorchProbe, variants: Variants, detail: Detail, scratch: Scratch
    ) -> None:
        self.probe, self.detail, self.variants = probe, detail, variants
        q = variants.quantized[probe.value]
        value = variants.floats[probe.pair.float_name]
        self.shape = q.shape
        self.float_value = self.as_quantized(value)
        self.q, self.f = self.laid_out(q), self.laid_out(self.float_value)
        self.scratch = scratch
        self.error = scratch.difference("error", self.q, self.f)

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
        """Give all sums by name, [images, channels] each."""
        found = {"signal": _squares(self.f), "error": _squares(self.error)}
        if self.detail == "full":
            found |= self._statistics()
            if self.probe.pieces is not None:
                found |= self._sources(self.probe.pieces)
        return found

    def _statistics(self) -> "dict[str, torch.Tensor]":
        f, q, quantizer = self.f, self.q, self.probe.quantizer
        local = self.laid_out(quantizer.apply(self.float_value)).sub_(f)
        sums = {
            "quantized_signal": _squares(q),
            "float_sum": f.sum(-1),
            "quantized_sum": q.sum(-1),
            "float_min": f.amin(-1),
            "float_max": f.amax(-1),
            "quantized_min": q.amin(-1),
            "quantized_max": q.amax(-1),
            "local_error": _squares(local),
        }
        beyond = (quantizer.high - quantizer.low) * CLIP_TOLERANCE
        sums["clipped_high"] = self._above(1, quantizer.high + beyond, sums["float_max"])
        if not (self.probe.is_relu and (quantizer.low <= 0).all()):
            sums["clipped_low"] = self._above(-1, beyond - quantizer.low, -sums["float_min"])
        # Behind a ReLU the signs do, which is quicker.
        counted = f.sign().sum(-1) if self.probe.is_relu else f.count_nonzero(-1).to(f.dtype)
        sums["not_zero"] = counted
        return sums

    def _above(self, sign: int, end: Ends, largest: "torch.Tensor") -> "torch.Tensor":
        """Count `sign` times the float values above an end; mostly the largest tell of none."""
        import torch

        if end.size > 1:
            ends = self.probe.tensor.params.expand(end, tuple(self.shape))
            return self.laid_out(sign * self.float_value > torch.from_numpy(ends)).sum(-1)
        one = end.item()
        if not bool((largest > one).any()):
            return largest.new_zeros(largest.shape)
        return (sign * self.f - one).clamp_min_(0).sign_().sum(-1)

    def _sources(self, pieces: Pieces) -> "dict[str, torch.Tensor]":
        quantizer, variants = self.probe.quantizer, self.variants
        assert quantizer.reads is not None
        before = variants.quantized[quantizer.reads]
        weighted = variants.weighted(pieces, before)
        inherited = variants.inherited(pieces, weighted)
        b = self.laid_out(weighted)
        a = b if inherited is weighted else self.laid_out(self.as_quantized(inherited))
        c = _clip(b, float(quantizer.low), float(quantizer.high))
        sums = {
            "inherited": self._dot(a, self.f),
            "clipping": b.new_zeros(b.shape[:2]) if c is b else self._dot(c, b),
        }
        if a is not b:
            sums["weights"] = self._dot(b, a)
        steps = [self.laid_out(self.as_quantized(step)) for step in variants.one_by_one(pieces)]
        if len(steps) == 2 and len(pieces.inputs) == 2:
            sums["first_minus_second"] = self._dot(steps[0], steps[1])
        elif steps:
            ends = zip([*steps, a], [self.f, *steps], strict=True)
            sums |= {f"inherited:{at}": self._dot(*pair) for at, pair in enumerate(ends)}
        return sums

    def _dot(self, one: "torch.Tensor", other: "torch.Tensor") -> "torch.Tensor":
        """Sum (one - other) * error: what this difference adds to the error's energy."""
        return self.scratch.difference("term", one, other).mul_(self.error).sum(-1)


def _squares(value: "torch.Tensor") -> "torch.Tensor":
    import torch

    # One pass without a copy, where squaring first takes two.
    found: torch.Tensor = torch.linalg.vector_norm(value, dim=-1)
    return found.square_()


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
