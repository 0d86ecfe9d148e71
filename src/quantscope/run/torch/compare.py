"""An exported float program and its quantized form on the same images, tensor by tensor.

Batches run side by side, and only their sums are kept: memory does not grow with the images.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from quantscope.data import ImageSet
from quantscope.edit.torch.floats import known_float_program
from quantscope.errors import BadModelError
from quantscope.model import Network, Pairing
from quantscope.progress import Progress, silent
from quantscope.run.compare.compare import comparison_of, paired, small_batch
from quantscope.run.compare.results import Comparison, TensorComparison
from quantscope.run.compare.scores import ScoreKeeper
from quantscope.run.compare.statistics import Accumulator
from quantscope.run.in_order import cores, in_order
from quantscope.run.onnx.compare.graph import Detail
from quantscope.run.onnx.sessions import Execution
from quantscope.run.torch.classifier import refuse_runtime
from quantscope.run.torch.freed_memory import keep_freed_memory
from quantscope.run.torch.pairs import BatchResult, PairedPrograms
from quantscope.run.torch.probes import TorchProbe
from quantscope.run.torch.programs import Program, opened_program
from quantscope.run.torch.threads import one_thread_each
from quantscope.run.torch.weights import check_weights_fit, compare_weights
from quantscope.zoo import unknown_float_model

_EXTREMES = ("min", "max")


def compare_programs(
    path: Path,
    images: ImageSet,
    *,
    float_model: str | Path | None,
    execution: Execution,
    detail: Detail,
    threads: int,
    batch: int | None,
    progress: Progress,
) -> Comparison:
    """As `compare`."""
    with opened_program(path) as quantized:
        if not quantized.network.is_quantized:
            raise BadModelError(
                f"{path.name} is a float program: there is nothing to compare it with; give a "
                f"quantized one"
            )
        refuse_runtime(path, execution)
        with opened_program(float_program_of(quantized.network, float_model)) as floats:
            return compare_opened(
                floats,
                quantized,
                images,
                detail=detail,
                threads=threads,
                batch=batch,
                progress=progress,
            )


def compare_opened(
    floats: Program,
    quantized: Program,
    images: ImageSet,
    *,
    detail: Detail = "full",
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Comparison:
    pairing = fitting_pairing(floats, quantized)
    programs = PairedPrograms(floats, quantized, pairing, detail=detail)
    return compare_paired(programs, images, threads=threads, batch=batch, progress=progress)


def fitting_pairing(floats: Program, quantized: Program) -> Pairing:
    """Refused where the two do not belong together."""
    pairing = paired(floats.network, quantized.network)
    check_weights_fit(floats, quantized, pairing)
    return pairing


def compare_paired(
    programs: PairedPrograms,
    images: ImageSet,
    *,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Comparison:
    floats, quantized = programs.floats.program, programs.quantized.program
    both = _taking_what_both_take(floats, quantized)
    probabilities = quantized.classifier.gives_probabilities
    scores = ScoreKeeper(images, "reference", model=quantized.name, probabilities=probabilities)
    accumulators: dict[str, Accumulator] = {}
    threads = threads or cores()
    done = 0
    keep_freed_memory()
    with one_thread_each(threads):
        for first, _ in both.batches(images.take(1), 1):
            programs.check(first)
        # An operator of PyTorch costs more to call than one of onnxruntime: twice the images.
        batches = both.batches(images, batch or 2 * small_batch(quantized.network))
        for rows, count, found in in_order(programs.run, batches, threads=threads):
            scores.add(found.float_scores, found.quantized_scores, rows, count)
            _accumulate(accumulators, programs, found, rows, count)
            done += count
            progress("Comparing", done, len(images))
    pairing = programs.pairing
    is_full = programs.detail == "full"
    constants = compare_weights(floats, quantized, pairing) if is_full else ({}, [])
    result = comparison_of(
        quantized.network,
        floats.network,
        pairing,
        images,
        accumulators=list(accumulators.values()),
        constants=constants,
        unseen=programs.unseen,
        output=scores.finish(),
        no_output=scores.no_classes,
        execution="reference",
        provenance=quantized.classifier.provenance,
    )
    tensors = tuple(_narrowed(tensor, programs.probes) for tensor in result.tensors)
    return replace(result, tensors=tensors)


def _taking_what_both_take(floats: Program, quantized: Program) -> Program:
    """The quantized program, with the batches that the float one was exported for too."""
    sizes = [p.classifier.fixed_batch for p in (floats, quantized)]
    fixed = {size for size in sizes if size is not None}
    least = max(floats.least, quantized.least, *fixed)
    most = min((m for m in (floats.most, quantized.most, *fixed) if m is not None), default=None)
    if len(fixed) > 1 or (most is not None and least > most):
        raise BadModelError(
            f"{floats.name} and {quantized.name} take no batch in common; export both with a "
            f"dynamic batch"
        )
    classifier = replace(quantized.classifier, fixed_batch=next(iter(fixed), None))
    return replace(quantized, classifier=classifier, least=least, most=most)


def _narrowed(tensor: TensorComparison, probes: Sequence[TorchProbe]) -> TensorComparison:
    """By the range that the quantizer has, where that is less than its type's."""
    probe = next((p for p in probes if p.pair.name == tensor.name), None)
    if probe is None or tensor.float_values is None:
        return tensor
    low, high = probe.quantizer.low, probe.quantizer.high
    step = probe.tensor.params.step
    least, most = (np.array([getattr(c, f"float_{e}") for c in tensor.channels]) for e in _EXTREMES)
    is_whole = np.allclose([low, high], probe.tensor.params.representable_range)
    if is_whole or (low.ndim and low.shape != least.shape):
        return tensor
    used = (np.clip(most, low, high) - np.clip(least, low, high)) / (high - low)
    ends = np.clip([least.min(), most.max()], low, high) if low.ndim == 0 else None
    return replace(
        tensor,
        beyond_low_steps=max(0.0, float(((low - least) / step).max())),
        beyond_high_steps=max(0.0, float(((most - high) / step).max())),
        used_share_of_range=None if ends is None else float((ends[1] - ends[0]) / (high - low)),
        channels=tuple(
            replace(channel, used_share_of_range=float(share))
            for channel, share in zip(tensor.channels, used, strict=True)
        ),
    )


def _accumulate(
    accumulators: dict[str, Accumulator],
    programs: PairedPrograms,
    found: BatchResult,
    rows: int,
    count: int,
) -> None:
    for probe in programs.probes:
        name = probe.pair.name
        if name not in accumulators:
            accumulators[name] = Accumulator(probe.accumulated(found.rows[name]))
        accumulators[name].add(found.statistics[name], found.sizes[name], rows, count)


def float_program_of(network: Network, given: str | Path | None) -> Path:
    """The given float model, or the bundled weights that the program says it was made from."""
    path = known_float_program(network, given)
    if path is None:
        raise unknown_float_model(network)
    return path
