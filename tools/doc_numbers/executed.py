"""Run the bundled networks in integers over a few images, and keep every layer's integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import Saturation, dequantize
from quantscope.data import load_sample
from quantscope.model import Network, QuantTensor, bundled_models, read_onnx
from quantscope.run.integers.compute import accumulate, multiplier_of, with_bias
from quantscope.run.integers.layer import IntegerLayer
from quantscope.run.integers.network import IntegerNetwork, integer_network
from quantscope.run.integers.trace_terms import Parts, take_apart

Array = NDArray[Any]

IMAGES = 20
EXAMPLE = 0
"""The image of the worked examples, by its place in the bundled sample."""


@dataclass(frozen=True, eq=False)
class Step:
    """A layer, the integers it read and wrote, and what saturated in it; all images."""

    spec: IntegerLayer
    operands: Sequence[Array]
    output: Array
    saturation: Saturation | None = None

    @property
    def name(self) -> str:
        return self.spec.layer.name

    @property
    def multiplies(self) -> bool:
        return self.spec.kind in ("Conv", "Gemm")

    @property
    def y(self) -> QuantTensor:
        assert self.spec.output is not None
        return self.spec.output

    @property
    def zero_point(self) -> int:
        return int(self.y.params.zero_point)

    def accumulators(self) -> NDArray[np.int64]:
        """Compute the accumulators of all images, bias included."""
        total = with_bias(self.spec, accumulate(self.spec, self.operands))
        return np.asarray(total, np.int64)

    def multiplier(self) -> list[Fraction]:
        """Give the exact multiplier of each output channel."""
        exact = multiplier_of(self.spec, self.y, "exact")
        channels = self.output.shape[1]
        return [Fraction(m) for m in np.broadcast_to(exact.reshape(-1), channels)]

    def real(self, q: int) -> float:
        """Give an output integer as DequantizeLinear does, in float32."""
        return float(dequantize(np.asarray(q, self.output.dtype), self.y.params))

    def parts(self, at: tuple[int, ...]) -> Parts:
        """Take the example image's value at this place apart."""
        one = [
            operand if side.data is not None else operand[EXAMPLE : EXAMPLE + 1]
            for side, operand in zip(self.spec.sides, self.operands, strict=True)
        ]
        return take_apart(self.spec, one, at, self.y)


@dataclass(frozen=True, eq=False)
class Executed:
    """The executed networks: `steps` of resnet8-int8, `saturated` of resnet8-uint8 on AVX2.

    `unsaturated_classes` are what resnet8-uint8 answers with the same kernels made wide enough.
    """

    network: Network
    uint8_network: Network
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    steps: dict[str, Step]
    saturated: dict[str, Step]
    unsaturated_classes: NDArray[np.int64]

    @property
    def example(self) -> NDArray[np.uint8]:
        return self.images[EXAMPLE]

    @property
    def products(self) -> list[Step]:
        return [step for step in self.steps.values() if step.multiplies]


def execute() -> Executed:
    sample = load_sample().take(IMAGES)
    files = bundled_models()
    network, other = read_onnx(files["resnet8-int8"]), read_onnx(files["resnet8-uint8"])
    uint8_integers = integer_network(files["resnet8-uint8"])
    unsaturated = uint8_integers.run(sample.images.astype(np.float32), "kernel")
    return Executed(
        network=network,
        uint8_network=other,
        images=sample.images,
        labels=sample.labels,
        steps=_steps(integer_network(files["resnet8-int8"]), sample.images, saturating=False),
        saturated=_steps(uint8_integers, sample.images, saturating=True),
        unsaturated_classes=unsaturated.argmax(axis=1),
    )


def _steps(network: IntegerNetwork, images: Array, *, saturating: bool) -> dict[str, Step]:
    found: dict[str, Step] = {}

    def keep(
        spec: IntegerLayer,
        operands: Sequence[Array],
        output: Array,
        saturation: Saturation | None,
    ) -> None:
        found[spec.layer.name] = Step(spec, list(operands), output, saturation)

    arithmetic = "avx2" if saturating else "exact"
    network.run(images.astype(np.float32), arithmetic, observe=keep)
    return found


def clear_of_ties(steps: Fraction) -> bool:
    """Tell whether it is so far from a rounding tie that any arithmetic rounds it the same way."""
    return abs(abs(steps - round(steps)) - Fraction(1, 2)) > Fraction(1, 20)


def telling_place(step: Step, position: tuple[int, ...]) -> tuple[int, ...]:
    """Find the first channel whose value at `position` is not clamped, zero or near a tie."""
    params = step.y.params
    for channel in range(step.output.shape[1]):
        at = (channel, *position)
        q = int(step.output[(EXAMPLE, *at)])
        inner = params.qmin < q < params.qmax and q != step.zero_point
        if inner and clear_of_ties(step.parts(at).exact_steps):
            return at
    raise AssertionError(f"no telling value of {step.name} at {position}; choose another place")
