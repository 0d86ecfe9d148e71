"""The second answer to edits: SQNR along the network, before and after."""

from dataclasses import dataclass
from typing import Any

from quantscope.run.compare.results import Comparison

NOT_QUANTIZED = "it is not quantized any more"
FLOAT_BITS = 32


@dataclass(frozen=True, eq=False)
class DownstreamSqnr(Comparison):
    """The edited model compared with the float one, SQNRs only; `before` is the unedited model's.

    `downstream` are the tensors that the edits can have changed; all others are as before. A tensor
    that is not quantized any more has a row, of 32 bits, with what its readers get instead; in
    runtime execution it cannot be seen.
    """

    before: Comparison
    downstream: tuple[str, ...]

    @property
    def changes(self) -> tuple[tuple[str, float | None, float | None], ...]:
        """The name and SQNR in dB, before and after, of each tensor downstream that has both."""
        before = {tensor.name: tensor.sqnr_db for tensor in self.before.tensors}
        return tuple(
            (tensor.name, before[tensor.name], tensor.sqnr_db)
            for tensor in self.tensors
            if tensor.name in self.downstream and tensor.name in before
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "downstream": [
                {"name": name, "sqnr_db_before": before, "sqnr_db": after}
                for name, before, after in self.changes
            ],
        }
