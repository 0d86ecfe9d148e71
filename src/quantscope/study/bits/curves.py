"""Measure what the bits of each layer alone buy, its weights and its activations apart."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quantscope.data import Samples, SamplesSource
from quantscope.edit import EditedRole, Editor, RangeRule, SetBits, parts_of
from quantscope.model import Execution, ModelSource, QuantTensor
from quantscope.progress import Progress, silent
from quantscope.run import Evaluation, MeasureSource, compare_evaluations
from quantscope.study.bits.bit_map import BITS, check_widths
from quantscope.study.bits.estimate import Agree, estimate
from quantscope.study.bits.ranges import ChosenRanges, choose_ranges
from quantscope.study.bits.results import Measured
from quantscope.study.variants import VariantBench


@dataclass(frozen=True)
class CurvePoint:
    """The score of the network with one layer's weights, or one activation, at other bits.

    `delta` is against the network as it is, on the same samples, with its paired interval, None for
    a single sample.
    """

    bits: int
    score: float
    delta: float
    delta_interval_95: tuple[float, float] | None


@dataclass(frozen=True)
class BitCurve:
    """The scores of one tensor at all widths, all others as they are, by rising bits."""

    layer: str
    tensor: str
    role: EditedRole
    own_bits: int
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, eq=False)
class BitCurves(Measured):
    """The curves of all weights and activations of a network, in its order.

    `base` is the score of the network as it is, `floats` the float network's.
    """

    base: float
    floats: float | None
    curves: tuple[BitCurve, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def bit_curves(
    model: ModelSource | Editor,
    samples: Samples,
    *,
    float_model: ModelSource | None = None,
    widths: Sequence[int] = BITS,
    ranges: RangeRule = "keep",
    calibration: SamplesSource | None = None,
    execution: Execution = "reference",
    measure: MeasureSource | None = None,
    threads: int = 0,
    agree: Agree | None = None,
    progress: Progress = silent,
) -> BitCurves:
    """Give each weight and each activation of a quantized ONNX model other bits, one at a time.

    Tensors that share a scale have one curve, that of the first of them. `ranges`, `calibration`
    and `agree` are as in `bit_map`.
    """
    chosen = [bits for bits in check_widths("a layer", widths) if bits is not None]
    bench = VariantBench.open(
        model,
        samples,
        float_model=float_model,
        measure=measure,
        execution=execution,
        threads=threads,
        progress=progress,
    )
    subjects = list(find_subjects(bench.editor))
    own = choose_ranges(
        bench.editor, ranges, chosen, calibration, threads=threads, progress=progress
    )
    variants = {
        f"{tensor.name} {bits}": [own.edit(tensor.name, bits, stored=tensor.has_data)]
        for _, tensor in subjects
        for bits in chosen
        if bits != tensor.params.bits or ranges != "keep"
    }
    if agree is not None:
        model = bench.editor.model
        agree(estimate(model, bench.samples, len(variants), execution=execution, threads=threads))
    found = bench.measure(variants, what="Measuring bits of layers", progress=progress)
    base = bench.base
    floats = bench.floats.scored
    return BitCurves(
        **facts_of(bench, own),
        base=base.score.value,
        floats=None if floats is None else floats.value,
        curves=tuple(
            BitCurve(
                layer=layer,
                tensor=tensor.name,
                role="weights" if tensor.role == "weight" else "activations",
                own_bits=tensor.params.bits,
                points=tuple(
                    _point(bits, found.get(f"{tensor.name} {bits}", base), base) for bits in chosen
                ),
            )
            for layer, tensor in subjects
        ),
    )


def find_subjects(editor: Editor) -> Iterator[tuple[str, QuantTensor]]:
    """Give each tensor whose bits can be set, with its layer: one of all that share a scale."""
    network = editor.network
    taken: set[str] = set()
    inputs = [t for t in network.tensors if t.role == "activation" and t.producer is None]
    layers = [(layer.name, parts_of(network, layer)) for layer in network.layers]
    for name, parts in [("input", tuple(inputs)), *layers]:
        for tensor in parts:
            if tensor.name in taken or tensor.role == "bias" or not tensor.params.is_integer:
                continue
            moved = {change.tensor for change in editor.preview([SetBits(tensor.name, 2)]).changes}
            taken |= moved
            yield name, tensor


def _point(bits: int, now: Evaluation, base: Evaluation) -> CurvePoint:
    delta = compare_evaluations(now, base)
    return CurvePoint(bits, now.score.value, delta.delta, delta.scores.interval_95)


def facts_of(bench: VariantBench, ranges: ChosenRanges) -> dict[str, Any]:
    """Give the fields of `Measured` for what a bench measures."""
    base, score = bench.base, bench.base.score
    return {
        **vars(bench.origin),
        "samples": base.images,
        "sample_word": base.sample_word,
        "measure": score.measure,
        "unit": score.unit,
        "higher_is_better": score.higher_is_better,
        "interval_of": score.interval_of,
        "provenance": base.provenance,
        "ranges": ranges.rule,
        "range_data": ranges.data,
    }
