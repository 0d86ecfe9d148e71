"""Walk from all bits downwards, each step at the tensor that costs least for what it saves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from quantscope.data import Samples, stratify
from quantscope.edit import Edit, Editor, SetBits
from quantscope.errors import BadConfigError
from quantscope.model import Execution, Layer, ModelSource
from quantscope.progress import Progress, silent
from quantscope.run import Evaluation, MeasureSource, Origin, compare_evaluations
from quantscope.study.bits.bit_map import check_widths
from quantscope.study.bits.curves import find_subjects
from quantscope.study.variants import VariantBench

Saving = Literal["size", "compute"]
"""What a step shall save: bytes of weights, or products times the bits of both of their sides."""

STEPS = (8, 6, 4, 3, 2)
"""The widths that a walk goes down by, where nobody says others."""
RANKED_ON = 128


@dataclass(frozen=True)
class FrontierPoint:
    """The network after some steps: the bits of each tensor, what they cost, and the score.

    `step` names what was narrowed last, empty at the start and for uniform widths. `bit_operations`
    are multiply-accumulates times the bits of weights and of inputs.
    """

    step: str
    bits: Mapping[str, int]
    weight_bytes: int
    bit_operations: int
    score: float
    interval_95: tuple[float, float] | None
    delta: float | None
    delta_interval_95: tuple[float, float] | None

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that make it of the network that the walk began with."""
        return tuple(SetBits(tensor, bits) for tensor, bits in self.bits.items())


@dataclass(frozen=True, eq=False)
class Frontier(Origin):
    """The points of a walk, from the widest to the narrowest, and the uniform ones beside it.

    `delta` of a point is its score minus the float network's.
    """

    samples: int
    sample_word: str
    ranked_on: int
    measure: str
    unit: str
    higher_is_better: bool
    saving: Saving
    floats: float | None
    points: tuple[FrontierPoint, ...]
    uniform: tuple[FrontierPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def walk_frontier(
    model: ModelSource | Editor,
    samples: Samples,
    *,
    float_model: ModelSource | None = None,
    widths: Sequence[int] = STEPS,
    saving: Saving = "compute",
    ranked_on: int = RANKED_ON,
    execution: Execution = "reference",
    measure: MeasureSource | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> Frontier:
    """Narrow one tensor at a time of a quantized ONNX model, as long as that saves something.

    Each step tries every tensor at its next width beside all that was narrowed before, on
    `ranked_on` samples, and keeps the one that adds least noise to the outputs for what it saves:
    by a score of few samples they would be ranked by chance. The score of each point is measured on
    all samples.
    """
    steps = [bits for bits in reversed(check_widths("a tensor", widths)) if bits is not None]
    if len(steps) < 2:
        raise BadConfigError(
            f"A walk goes down from one width to another; give two or more, not {steps[0]} alone"
        )
    bench = VariantBench.open(
        model,
        samples,
        float_model=float_model,
        measure=measure,
        execution=execution,
        threads=threads,
        progress=progress,
    )
    few = VariantBench.open(
        bench.editor,
        stratify(samples, min(ranked_on, len(samples))),
        float_model=float_model,
        measure=measure,
        execution=execution,
        threads=threads,
    )
    costs = Costs.of(bench.editor, saving)
    states = list(_walk(few, costs, steps, progress))
    uniform = [dict.fromkeys(costs.tensors, bits) for bits in steps]
    found = bench.measure(
        {str(place): _edits(bits) for place, (_, bits) in enumerate(states)}
        | {f"all {bits}": _edits(state) for bits, state in zip(steps, uniform, strict=True)},
        what="Measuring the frontier",
        progress=progress,
    )
    base, floats = bench.base, bench.floats

    def point(step: str, bits: Mapping[str, int], key: str) -> FrontierPoint:
        return _point(step, bits, found[key], floats, costs)

    return Frontier(
        **vars(bench.origin),
        samples=base.images,
        sample_word=base.sample_word,
        ranked_on=len(few.samples),
        measure=base.score.measure,
        unit=base.score.unit,
        higher_is_better=base.score.higher_is_better,
        saving=saving,
        floats=None if floats.scored is None else floats.scored.value,
        points=tuple(point(step, bits, str(place)) for place, (step, bits) in enumerate(states)),
        uniform=tuple(
            point("", state, f"all {bits}") for bits, state in zip(steps, uniform, strict=True)
        ),
    )


@dataclass(frozen=True)
class Costs:
    """What the bits of a network's tensors cost.

    `tensors` are those whose bits are set, each with the names of all that follow it. `weights` are
    counts of values, `products` the layers' multiply-accumulates with the tensors of both sides.
    """

    tensors: Mapping[str, tuple[str, ...]]
    own_bits: Mapping[str, int]
    weights: Mapping[str, int]
    products: tuple[tuple[int, str, str], ...]
    saving: Saving

    @classmethod
    def of(cls, editor: Editor, saving: Saving) -> "Costs":
        network = editor.network
        tensors = {
            tensor.name: tuple(
                change.tensor
                for change in editor.preview([SetBits(tensor.name, 2)]).changes
                if change.role != "bias"
            )
            for _, tensor in find_subjects(editor)
        }
        weights = {
            tensor.name: int(np.prod([d for d in tensor.shape or () if isinstance(d, int)]))
            for tensor in network.tensors
            if tensor.role == "weight"
        }
        products = tuple(found for layer in network.layers if (found := _product(layer)))
        own = {tensor.name: tensor.params.bits for tensor in network.tensors}
        return cls(tensors, own, weights, products, saving)

    def weight_bytes(self, bits: Mapping[str, int]) -> int:
        spread = self._spread(bits)
        return -(-sum(count * spread[name] for name, count in self.weights.items()) // 8)

    def bit_operations(self, bits: Mapping[str, int]) -> int:
        spread = self._spread(bits)
        return sum(macs * spread[x] * spread[w] for macs, x, w in self.products)

    def cost(self, bits: Mapping[str, int]) -> int:
        return self.weight_bytes(bits) if self.saving == "size" else self.bit_operations(bits)

    def _spread(self, bits: Mapping[str, int]) -> dict[str, int]:
        """Give the bits of all tensors where those that are set have these."""
        followed = {
            name: bits[leader]
            for leader, names in self.tensors.items()
            if leader in bits
            for name in names
        }
        return {**self.own_bits, **followed}


def _product(layer: Layer) -> tuple[int, str, str] | None:
    """Give a layer's products and its two quantized sides; None where it has not both."""
    sides = [o.quant.name for o in layer.inputs if o.quant and o.quant.role != "bias"]
    return (layer.macs, sides[0], sides[1]) if layer.macs and len(sides) >= 2 else None


def _walk(
    bench: VariantBench, costs: Costs, steps: Sequence[int], progress: Progress
) -> Iterator[tuple[str, dict[str, int]]]:
    """Give the state after each step that saves something, with the tensor that it narrowed."""
    state = dict.fromkeys(costs.tensors, steps[0])
    yield "", dict(state)
    total = len(state) * (len(steps) - 1)
    noise = _noise(bench.measure({"now": _edits(state)}, what="Walking down")["now"], bench.floats)
    for done in range(total):
        progress("Walking down", done, total)
        tried = {
            name: {**state, name: steps[steps.index(bits) + 1]}
            for name, bits in state.items()
            if bits != steps[-1]
        }
        found = bench.measure({name: _edits(s) for name, s in tried.items()}, what="Walking down")
        noises = {name: _noise(each, bench.floats) for name, each in found.items()}
        before = costs.cost(state)

        def price(name: str, before: int = before, noise: float = noise) -> tuple[bool, float]:
            saved = before - costs.cost(tried[name])  # noqa: B023 - asked within this turn
            added = noises[name] - noise  # noqa: B023
            return saved <= 0, added / saved if saved > 0 else added

        best = min(tried, key=price)
        if costs.cost(tried[best]) >= before:
            break  # what is left costs score and saves nothing
        state, noise = tried[best], noises[best]
        yield best, dict(state)
    progress("Walking down", total, total)


def _noise(found: Evaluation, floats: Evaluation) -> float:
    """Give the energy of the outputs' error over that of the float outputs; infinite for a NaN."""
    error, signal = 0.0, 0.0
    # The float model's outputs come in the same order, perhaps by other names.
    for mine, theirs in zip(found.outputs.values(), floats.outputs.values(), strict=True):
        wide = np.asarray(theirs, np.float64)
        error += float(((np.asarray(mine, np.float64) - wide) ** 2).sum())
        signal += float((wide**2).sum())
    ratio = error / signal if signal else error
    return ratio if np.isfinite(ratio) else float("inf")


def _edits(bits: Mapping[str, int]) -> list[Edit]:
    return [SetBits(tensor, width) for tensor, width in bits.items()]


def _point(
    step: str, bits: Mapping[str, int], found: Evaluation, floats: Evaluation, costs: Costs
) -> FrontierPoint:
    delta = compare_evaluations(found, floats) if floats.scored is not None else None
    return FrontierPoint(
        step=step,
        bits=dict(bits),
        weight_bytes=costs.weight_bytes(bits),
        bit_operations=costs.bit_operations(bits),
        score=found.score.value,
        interval_95=found.score.interval_95,
        delta=None if delta is None else delta.delta,
        delta_interval_95=None if delta is None else delta.scores.interval_95,
    )
