"""Findings are made from evidence: everything that was measured of a model, measured once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from quantscope.data import Samples
from quantscope.diagnose.input_stats import InputStats
from quantscope.edit import Editor
from quantscope.model import Network, QuantTensor
from quantscope.run import BestRange, Comparison, Ends, KernelMap, TensorComparison

Row = tuple[QuantTensor, TensorComparison]


@dataclass(frozen=True, eq=False)
class Evidence:
    """A quantized model beside its float original, as far as findings ask about it.

    `ends` are those of the float values of `samples`, `calibration_ends` those of the samples that
    its ranges were found from, empty where these are not known. `typical_spans` are what the middle
    one of `samples` needs, `best_ranges` what other ranges would cost those that few samples fill.
    `saturates`: the CPU that the diagnosis is for adds 8-bit products in pairs with 16-bit
    saturation.
    """

    editor: Editor
    samples: Samples
    comparison: Comparison
    ends: Mapping[str, Ends]
    kernels: KernelMap | None
    saturates: bool
    kernels_of: str = "this CPU"
    calibration: Samples | None = None
    calibration_ends: Mapping[str, Ends] | None = None
    data_inputs: Mapping[str, InputStats] = field(default_factory=dict)
    typical_spans: Mapping[str, float] = field(default_factory=dict)
    best_ranges: Mapping[str, BestRange] = field(default_factory=dict)
    calibration_inputs: Mapping[str, InputStats] = field(default_factory=dict)

    @property
    def network(self) -> Network:
        return self.editor.network

    @cached_property
    def tensors(self) -> Mapping[str, QuantTensor]:
        return {tensor.name: tensor for tensor in self.network.tensors}

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Each compared tensor with its numbers, along the network."""
        return tuple((self.tensors[each.name], each) for each in self.comparison.tensors)

    @cached_property
    def activations(self) -> tuple[Row, ...]:
        """Compared activations with a range of their own, one for all channels, and an error.

        Those that only carry on the integers of another have none.
        """
        return tuple(
            (tensor, row)
            for tensor, row in self.rows
            if tensor.role == "activation"
            and tensor.params.is_per_tensor
            and tensor.params.is_integer
            and tensor.follows is None
            and not row.exact
            and row.float_values is not None
        )

    def wanted_range(self, name: str) -> tuple[float, float] | None:
        """Give the range that holds all values: of the calibration samples where they are known."""
        found = (self.calibration_ends or {}).get(name) or self.ends.get(name)
        if found is None or found.span <= 0:
            return None
        return min(found.low.value, 0.0), max(found.high.value, 0.0)

    @property
    def range_source(self) -> str:
        """Say which samples `wanted_range` is of."""
        return "the calibration samples" if self.calibration_ends else "these samples"


def range_of(tensor: QuantTensor) -> tuple[float, float]:
    """Give the ends of what a tensor with one scale can represent."""
    low, high = tensor.params.representable_range
    return float(low), float(high)
