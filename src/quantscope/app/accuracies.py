"""Hold the three accuracies that stand side by side."""

from dataclasses import dataclass
from typing import Literal

from quantscope.data import Samples
from quantscope.run import Evaluation, KernelGap, PairedDelta, paired

Of = Literal["float", "reference", "runtime"]


@dataclass(frozen=True)
class Accuracies:
    """The three accuracies on the same images; None where it is not known or there is none."""

    images: Samples
    float_: Evaluation | None
    reference: Evaluation | None
    runtime: Evaluation | None
    gap: KernelGap | None

    def of(self, which: Of) -> Evaluation | None:
        return {"float": self.float_, "reference": self.reference, "runtime": self.runtime}[which]

    def against_float(self, which: Of) -> PairedDelta | None:
        """Compare with the float model image by image: quantized minus float."""
        mine = self.of(which)
        return None if mine is None or self.float_ is None else paired(mine, self.float_)
