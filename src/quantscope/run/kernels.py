"""The kernels that run a model's layers: as integers, as float, or merged into others."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

INT8_OPTION = "session.qdqisint8allowed"
"""The setting of onnxruntime that decides whether int8 layers are fused."""

Kernel = Literal["integer", "float", "fused", "moves data"]

# They compute nothing: whatever type arrives, leaves.
MOVING_OPS = frozenset(
    {
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape"),
        *("Shape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)


@dataclass(frozen=True)
class LayerKernel:
    """One operator of the model, and what executes it."""

    name: str
    op_type: str
    kernel: Kernel
    executed_as: str | None
    """The operator that runs, or None when the optimizer merged this one into another."""
    why: str | None = None
    """The reason why it is not an integer kernel, where that is known."""
    saturates: bool = False
    """It says whether it multiplies uint8 by int8, which saturates on x86 without VNNI."""


class KernelChange(NamedTuple):
    """A layer that runtime execution runs otherwise in the edited than in the unedited model."""

    layer: str
    before: str
    after: str


@dataclass(frozen=True)
class KernelMap:
    """One entry for each operator of the file but Q and DQ, in the file's order."""

    layers: tuple[LayerKernel, ...]
    option: str
    """The value of `session.qdqisint8allowed`, or "platform default"."""
    names_survived: bool
    """It says whether full optimization, whose names are lost, has as many integer operators."""

    @property
    def integer_layers(self) -> int:
        return sum(layer.kernel == "integer" for layer in self.layers)

    @property
    def computing_layers(self) -> int:
        return sum(layer.kernel in ("integer", "float") for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        return {
            "integer_layers": self.integer_layers,
            "computing_layers": self.computing_layers,
            INT8_OPTION: self.option,
            "names_survived": self.names_survived,
            "layers": [dict(layer.__dict__) for layer in self.layers],
        }


def changed_layers(plain: KernelMap, other: KernelMap) -> list[str]:
    """Name the layers that run otherwise; both maps are of the same layers."""
    return [
        one.name
        for one, two in zip(plain.layers, other.layers, strict=True)
        if (one.kernel, one.executed_as, one.saturates)
        != (two.kernel, two.executed_as, two.saturates)
    ]
