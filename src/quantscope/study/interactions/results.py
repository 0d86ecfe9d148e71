"""The costs of layers together, as values.

A loss is what a sample loses by quantization: by the measure, turned so that more is worse, and as
noise, the energy of the error of its outputs as a share of the float outputs' energy. Losses of
errors that have nothing to do with each other add up; decibels would not.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from quantscope.run import Estimate, Origin
from quantscope.study.sensitivity import NotSwitched, RowMode

SCHEMA_VERSION = 1
SURE = 0.05
"""How often chance alone may name any of all pairs."""

Kind = Literal["aggravate", "compensate"]


@dataclass(frozen=True)
class Alone:
    """The cost of quantizing one layer, the others as the mode has them."""

    layer: str
    op_type: str
    loss: Estimate | None
    noise: Estimate | None


@dataclass(frozen=True)
class Pair:
    """The cost of two layers together beyond what they cost alone.

    `first` stands first in the network. It is the cost of either while the other is quantized,
    minus its cost while the other is float:
    positive where they aggravate each other, negative where they compensate. `adjusted_p` is that
    of the number that ranks (`by_score`), by Holm for all pairs; `kind` says which of the two it is
    where that is below 0.05, and None where chance could be all of it. `loss` and `noise` are None
    where no sample has a number.
    """

    first: str
    second: str
    loss: Estimate | None
    noise: Estimate | None
    adjusted_p: float | None
    kind: Kind | None


@dataclass(frozen=True, eq=False)
class _Measured(Origin):
    """A measurement of layers: of what, on what, and by which measure.

    `loss` and `noise` are what the whole costs: the quantized network against the one with all of
    `alone` switched off. `by_score`: the measure ranks, else the noise.
    """

    images: int
    sample_word: str
    measure: str
    unit: str
    higher_is_better: bool
    by_score: bool
    loss: Estimate | None
    noise: Estimate | None
    not_switched: tuple[NotSwitched, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]

    @property
    def ranked_by(self) -> str:
        return self.measure if self.by_score else "noise of the outputs"

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {"schema_version": SCHEMA_VERSION, **values, "ranked_by": self.ranked_by}


@dataclass(frozen=True, eq=False)
class Interactions(_Measured):
    """The costs of every two layers together beyond what they cost alone.

    `mode` "disable": in the quantized network, of which they are switched off; "enable": alone in
    the float one.
    """

    mode: RowMode
    alone: tuple[Alone, ...]
    pairs: tuple[Pair, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(each.layer for each in self.alone)

    def counted(self, of: Alone | Pair) -> Estimate | None:
        """Give the number that ranks."""
        return of.loss if self.by_score else of.noise

    def named(self, kind: Kind) -> tuple[Pair, ...]:
        """List the pairs of a kind, what matters most first."""
        found = [pair for pair in self.pairs if pair.kind == kind]
        return tuple(sorted(found, key=lambda pair: -abs(self._value(pair))))

    def _value(self, pair: Pair) -> float:
        found = self.counted(pair)
        return 0.0 if found is None else found.value


@dataclass(frozen=True)
class ShapleyShare:
    """A layer's share of the whole loss: what it adds, over all orders of quantizing the layers.

    `standard_error` is of the orders that were drawn, 0 where these are all there are, and None of
    a single one; the interval is of the samples. Rank 1 has the largest share of what ranks.
    """

    layer: str
    op_type: str
    loss: Estimate | None
    loss_standard_error: float | None
    noise: Estimate | None
    noise_standard_error: float | None
    rank: int


@dataclass(frozen=True, eq=False)
class Shapley(_Measured):
    """Every layer's fair share of the whole loss; the shares add up to it.

    `orders` were drawn with `seed`; `is_exact`: they are all that there are. `variants` counts the
    networks that were measured.
    """

    orders: int
    is_exact: bool
    seed: int
    variants: int
    shares: tuple[ShapleyShare, ...]

    def ranked(self) -> tuple[ShapleyShare, ...]:
        return tuple(sorted(self.shares, key=lambda share: share.rank))
