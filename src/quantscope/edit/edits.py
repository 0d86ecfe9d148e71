"""Changes to a quantized network, as values. They say what is wanted; `apply` does it."""

from dataclasses import dataclass
from typing import Literal

EditedRole = Literal["weights", "activations"]


@dataclass(frozen=True)
class SetScale:
    """One scale, one per channel, or a factor on what is there; exactly one of the two is given."""

    tensor: str
    scale: float | tuple[float, ...] | None = None
    factor: float | None = None


@dataclass(frozen=True)
class SetZeroPoint:
    tensor: str
    zero_point: int | tuple[int, ...]


@dataclass(frozen=True)
class SetRange:
    """The real values that shall be representable; scale and zero-point follow."""

    tensor: str
    lo: float
    hi: float


@dataclass(frozen=True)
class SetInteger:
    """One stored integer of a weight or bias."""

    tensor: str
    index: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class SetChannel:
    """All integers of one output channel: one value for all, or as many as it has, in C order."""

    tensor: str
    channel: int
    values: int | tuple[int, ...]


@dataclass(frozen=True)
class FlipBit:
    """One bit of one stored integer; bit 0 is the least significant."""

    tensor: str
    index: tuple[int, ...]
    bit: int


@dataclass(frozen=True)
class Off:
    """No quantization of one tensor, or of a layer: its weight, bias and output."""

    target: str


@dataclass(frozen=True)
class On:
    """Takes an earlier `Off` or `OffRole` back, for one tensor or layer."""

    target: str


@dataclass(frozen=True)
class OffRole:
    """No quantization of any weight (and bias), or of any activation."""

    role: EditedRole


@dataclass(frozen=True)
class OnRole:
    role: EditedRole


Edit = (
    SetScale
    | SetZeroPoint
    | SetRange
    | SetInteger
    | SetChannel
    | FlipBit
    | Off
    | On
    | OffRole
    | OnRole
)
