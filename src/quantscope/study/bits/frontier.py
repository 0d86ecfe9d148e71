"""Walk from all bits downwards, each step at the tensor that costs least for what it saves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from quantscope.data import Samples, SamplesSource, stratify
from quantscope.edit import Edit, Editor, RangeRule, SetBits, edit_to_dict
from quantscope.errors import BadConfigError
from quantscope.model import Execution, Layer, ModelSource
from quantscope.progress import Progress, silent
from quantscope.run import Evaluation, MeasureSource, compare_evaluations
from quantscope.study.bits.bit_map import check_widths
from quantscope.study.bits.curves import facts_of, find_subjects
from quantscope.study.bits.estimate import Agree, Estimate, estimate
from quantscope.study.bits.ranges import choose_ranges
from quantscope.study.bits.results import Measured
from quantscope.study.variants import VariantBench

Saving = Literal["size", "compute"]
"""A step shall save one of these: bytes of weights, or products times their sides' bits."""

EditsOf = Callable[[Mapping[str, int]], Sequence[Edit]]

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
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    """The edits that make it of the network that the walk began with."""


@dataclass(frozen=True, eq=False)
class Frontier(Measured):
    """The points of a walk, from the widest to the narrowest, and the uniform ones beside it.

    Uniform points have the same bits for all that saves: for "size" that is the weights alone.
    `delta` of a point is its score minus the float network's. Steps were ranked on `ranked_on`
    samples.
    """

    ranked_on: int
    saving: Saving
    floats: float | None
    points: tuple[FrontierPoint, ...]
    uniform: tuple[FrontierPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.facts(),
            "ranked_on": self.ranked_on,
            "saving": self.saving,
            "floats": self.floats,
            "points": [_plain(point) for point in self.points],
            "uniform": [_plain(point) for point in self.uniform],
        }


def _plain(point: FrontierPoint) -> dict[str, Any]:
    found = {each.name: getattr(point, each.name) for each in fields(point)}
    return {
        **found,
        "bits": dict(point.bits),
        "edits": [edit_to_dict(edit) for edit in point.edits],
    }


def walk_frontier(
    model: ModelSource | Editor,
    samples: Samples,
    *,
    float_model: ModelSource | None = None,
    widths: Sequence[int] = STEPS,
    saving: Saving = "compute",
    ranked_on: int = RANKED_ON,
    ranges: RangeRule = "keep",
    calibration: SamplesSource | None = None,
    execution: Execution = "reference",
    measure: MeasureSource | None = None,
    threads: int = 0,
    agree: Agree | None = None,
    progress: Progress = silent,
) -> Frontier:
    """Narrow one tensor at a time of a quantized ONNX model, as long as that saves something.

    Each step tries every tensor at its next width beside all that was narrowed before, on
    `ranked_on` samples, and keeps the one that adds least noise to the outputs for what it saves:
    by a score of few samples they would be ranked by chance. The score of each point is measured on
    all samples. `ranges`, `calibration` and `agree` are as in `bit_map`.
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
    own = choose_ranges(
        bench.editor, ranges, steps, calibration, threads=threads, progress=progress
    )
    stored = {tensor.name for tensor in bench.editor.network.tensors if tensor.has_data}

    def edits_of(bits: Mapping[str, int]) -> tuple[Edit, ...]:
        return tuple(own.edit(name, width, stored=name in stored) for name, width in bits.items())

    if agree is not None:
        agree(_estimate(bench, few, len(costs.tensors), len(steps)))
    states = list(_walk(few, costs, steps, edits_of, progress))
    uniform = [costs.uniform(bits, steps[0]) for bits in steps]
    found = bench.measure(
        {str(place): edits_of(bits) for place, (_, bits) in enumerate(states)}
        | {f"all {bits}": edits_of(state) for bits, state in zip(steps, uniform, strict=True)},
        what="Measuring the frontier",
        progress=progress,
    )
    floats = bench.floats

    def point(step: str, bits: Mapping[str, int], key: str) -> FrontierPoint:
        return _point(step, bits, edits_of(bits), found[key], floats, costs)

    return Frontier(
        **facts_of(bench, own),
        ranked_on=len(few.samples),
        saving=saving,
        floats=None if floats.scored is None else floats.scored.value,
        points=tuple(point(step, bits, str(place)) for place, (step, bits) in enumerate(states)),
        uniform=tuple(
            point("", state, f"all {bits}") for bits, state in zip(steps, uniform, strict=True)
        ),
    )


@dataclass(frozen=True)
class Costs:
    """The costs of the bits of a network's tensors.

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

    def uniform(self, bits: int, most: int) -> dict[str, int]:
        """Give the same bits to all tensors that have something to save; `most` to the others."""
        return {
            name: bits if self.saving == "compute" or name in self.weights else most
            for name in self.tensors
        }

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
    bench: VariantBench, costs: Costs, steps: Sequence[int], edits_of: EditsOf, progress: Progress
) -> Iterator[tuple[str, dict[str, int]]]:
    """Give the state after each step that saves something, with the tensor that it narrowed."""
    state = dict.fromkeys(costs.tensors, steps[0])
    yield "", dict(state)
    total = len(state) * (len(steps) - 1)
    noise = _noise(
        bench.measure({"now": edits_of(state)}, what="Walking down")["now"], bench.floats
    )
    for done in range(total):
        progress("Walking down", done, total)
        tried = {
            name: {**state, name: steps[steps.index(bits) + 1]}
            for name, bits in state.items()
            if bits != steps[-1]
        }
        found = bench.measure({name: edits_of(s) for name, s in tried.items()}, what="Walking down")
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


def _estimate(bench: VariantBench, few: VariantBench, tensors: int, widths: int) -> Estimate:
    """Tell what a walk takes at most: each tensor goes down each step, and all others are tried."""
    steps = tensors * (widths - 1)
    tries = sum(min(tensors, steps - done) for done in range(steps))
    measured = estimate(
        bench.editor.model,
        bench.samples,
        steps + 1 + widths,
        execution=bench.execution,
        threads=bench.threads,
    )
    each = measured.seconds / measured.networks
    seconds = measured.seconds + tries * each * len(few.samples) / len(bench.samples)
    return Estimate(measured.networks + tries, len(bench.samples), seconds)


def _point(
    step: str,
    bits: Mapping[str, int],
    edits: tuple[Edit, ...],
    found: Evaluation,
    floats: Evaluation,
    costs: Costs,
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
        edits=edits,
    )
