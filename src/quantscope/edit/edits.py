"""Changes to a quantized network, as values. They say what is wanted; `apply` does it."""

from dataclasses import dataclass
from typing import Literal, get_args

EditedRole = Literal["weights", "activations"]

RangeRule = Literal["keep", "minmax", "best"]
"""How a range is chosen where a tensor gets other bits.

"keep": it stays. "minmax": from the least to the largest value seen. "best": the one whose mean
square error is least.
"""
RANGE_RULES: tuple[RangeRule, ...] = get_args(RangeRule)


@dataclass(frozen=True)
class SetScale:
    """Sets one scale, one per channel, or a factor on what is there.

    Exactly one of `scale` and `factor` is given.
    """

    tensor: str
    scale: float | tuple[float, ...] | None = None
    factor: float | None = None


@dataclass(frozen=True)
class SetZeroPoint:
    """Sets one zero-point, or one per channel; the scale stays."""

    tensor: str
    zero_point: int | tuple[int, ...]


@dataclass(frozen=True)
class SetRange:
    """Sets the real values that shall be representable; scale and zero-point follow."""

    tensor: str
    lo: float
    hi: float


@dataclass(frozen=True)
class SetBits:
    """Gives a tensor, the tensors of a layer or of a role, or `all`, another number of bits.

    The range of real values stays, or is chosen anew, or is one tensor's low and high end; scale
    and zero-point follow. A bias keeps its 32 bits. Weights have their values in the file. Those of
    an activation are there only when the network runs: `quantscope.run.settle_ranges` runs it, and
    puts the ends in a rule's place.
    """

    target: str
    bits: int
    range: RangeRule | tuple[float, float] = "keep"


@dataclass(frozen=True)
class SetInteger:
    """Sets one stored integer of a weight or bias."""

    tensor: str
    index: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class SetChannel:
    """Sets all integers of one output channel: one value for all, or one for each, in C order."""

    tensor: str
    channel: int
    values: int | tuple[int, ...]


@dataclass(frozen=True)
class SetIntegers:
    """Sets all stored integers of a weight, in C order, as `pack_integers` writes them."""

    tensor: str
    packed: str


@dataclass(frozen=True)
class ShiftBias:
    """Adds a real value to each element of a layer's bias, which keeps counting in its own steps.

    Shifts of one bias add up, and each is rounded to the steps that scales leave it.
    """

    tensor: str
    by: tuple[float, ...]


@dataclass(frozen=True)
class ScaleChannels:
    """Divides the channels between two layers by factors, which leaves the float function as it is.

    The weights and the bias of layer `first` are divided by them, those of layer `second`, which
    reads them, multiplied. All are rounded anew, over the extremes of their weights; the range of
    what lies between stays, until another edit sets it.
    """

    first: str
    second: str
    factors: tuple[float, ...]


@dataclass(frozen=True)
class FlipBit:
    """Flips one bit of one stored integer; bit 0 is the least significant."""

    tensor: str
    index: tuple[int, ...]
    bit: int


@dataclass(frozen=True)
class Off:
    """Switches off the quantization of one tensor, or of a layer's weight, bias and output."""

    target: str


@dataclass(frozen=True)
class On:
    """Takes an earlier `Off` or `OffRole` back, for one tensor or layer."""

    target: str


@dataclass(frozen=True)
class OffRole:
    """Switches off the quantization of all weights (and biases), or of all activations."""

    role: EditedRole


@dataclass(frozen=True)
class OnRole:
    """Takes earlier `Off` and `OffRole` back, for all tensors of the role."""

    role: EditedRole


Edit = (
    SetScale
    | SetZeroPoint
    | SetRange
    | SetBits
    | SetInteger
    | SetChannel
    | SetIntegers
    | ShiftBias
    | ScaleChannels
    | FlipBit
    | Off
    | On
    | OffRole
    | OnRole
)
