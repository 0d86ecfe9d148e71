"""The second answer to edits: SQNR along the network, before and after."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from quantscope.run.compare import Comparison, TensorComparison, Uncompared

NOT_QUANTIZED = "it is not quantized any more"
_FLOAT_BITS = 32


@dataclass(frozen=True, eq=False)
class DownstreamSqnr(Comparison):
    """The edited model compared with the float one, SQNRs only; `before` is the unedited model's.

    `downstream` are the tensors that the edits can have changed; all others are as before. A tensor
    that is not quantized any more has a row, of 32 bits, with what its readers get instead; in
    runtime execution it cannot be seen.
    """

    before: Comparison
    downstream: tuple[str, ...]

    @classmethod
    def between(
        cls, before: Comparison, after: Comparison, downstream: Iterable[str]
    ) -> "DownstreamSqnr":
        """Put the comparisons of the unedited and the edited model with the float one together."""
        facts = {field.name: getattr(after, field.name) for field in fields(Comparison)}
        return cls(**facts, before=before, downstream=tuple(downstream))

    @property
    def changes(self) -> tuple[tuple[str, float | None, float | None], ...]:
        """The name and SQNR in dB, before and after, of each tensor downstream that has both."""
        before = {tensor.name: tensor.sqnr_db for tensor in self.before.tensors}
        return tuple(
            (tensor.name, before[tensor.name], tensor.sqnr_db)
            for tensor in self.tensors
            if tensor.name in self.downstream and tensor.name in before
        )

    def to_dict(self, *, channels: bool = False, tensor: str | None = None) -> dict[str, Any]:
        return {
            **super().to_dict(channels=channels, tensor=tensor),
            "downstream": [
                {"name": name, "sqnr_db_before": before, "sqnr_db": after}
                for name, before, after in self.changes
            ],
        }


def mark_unquantized(
    rows: Iterable[TensorComparison], names: Collection[str]
) -> tuple[TensorComparison, ...]:
    """Give the rows with those of these names, which are not quantized any more, as floats."""
    return tuple(replace(row, bits=_FLOAT_BITS) if row.name in names else row for row in rows)


def unseen_activations(reasons: Mapping[str, str]) -> tuple[Uncompared, ...]:
    """Give the activations that could not be looked at; `reasons` say why, by name."""
    return tuple(Uncompared(name, "activation", why) for name, why in reasons.items())
