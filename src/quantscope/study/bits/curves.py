"""Measure what the bits of each layer alone buy, its weights and its activations apart."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quantscope.data import Samples
from quantscope.edit import EditedRole, Editor, SetBits, parts_of
from quantscope.model import Execution, ModelSource, QuantTensor
from quantscope.progress import Progress, silent
from quantscope.run import Evaluation, MeasureSource, Origin, compare_evaluations
from quantscope.study.bits.bit_map import BITS, check_widths
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
class BitCurves(Origin):
    """The curves of all weights and activations of a network, in its order.

    `base` is the score of the network as it is, `floats` the float network's.
    """

    samples: int
    sample_word: str
    measure: str
    unit: str
    higher_is_better: bool
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
    execution: Execution = "reference",
    measure: MeasureSource | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> BitCurves:
    """Give each weight and each activation of a quantized ONNX model other bits, one at a time.

    Tensors that share a scale have one curve, that of the first of them.
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
    variants = {
        f"{tensor.name} {bits}": [SetBits(tensor.name, bits)]
        for _, tensor in subjects
        for bits in chosen
        if bits != tensor.params.bits
    }
    found = bench.measure(variants, what="Measuring bits of layers", progress=progress)
    base = bench.base
    floats = bench.floats.scored
    return BitCurves(
        **vars(bench.origin),
        samples=base.images,
        sample_word=base.sample_word,
        measure=base.score.measure,
        unit=base.score.unit,
        higher_is_better=base.score.higher_is_better,
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
