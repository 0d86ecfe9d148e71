"""The kernel gap: what a model loses to the kernels that run it, not to its quantization."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quantscope.data import SamplesSource, samples_for
from quantscope.errors import BadConfigError
from quantscope.model import Model, ModelSource, open_model
from quantscope.progress import Progress, silent
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.evaluate import MeasureSource, evaluate
from quantscope.run.evaluation import Evaluation
from quantscope.run.evaluation_delta import EvaluationDelta, compare_evaluations
from quantscope.run.kernels import KernelMap, LayerKernel
from quantscope.run.runnable import open_runnable

SIGNIFICANT_P = 0.05


@dataclass(frozen=True)
class KernelGap:
    """The same images through the arithmetic that the file states and through what ships."""

    reference: Evaluation
    runtime: Evaluation
    kernels: KernelMap
    int8_kernels_help: bool
    """It says whether `int8_kernels` end saturation: onnxruntime made uint8 of the file's int8."""

    @cached_property
    def evaluation_delta(self) -> EvaluationDelta:
        """The two evaluations image by image, runtime minus reference."""
        return compare_evaluations(self.runtime, self.reference)

    @property
    def is_real(self) -> bool:
        """Say whether the paired test says that the two scores differ, at the 5 % level.

        Of numbers that are not right or wrong, a difference below a thousandth of them is none: the
        last bits of float sums differ for every sample.
        """
        scores = self.evaluation_delta.scores
        if not scores.is_share and abs(scores.delta) <= 1e-3 * abs(scores.second.value):
            return False
        return self.evaluation_delta.p_value < SIGNIFICANT_P

    def explanation(self) -> str | None:
        """Say why the kernels differ from the file's arithmetic; None if the gap may be chance."""
        if not self.is_real:
            return None
        scores = self.evaluation_delta.scores
        # The delta is runtime minus reference, so a loss is negative where higher is better.
        lost = -scores.delta if scores.first.higher_is_better else scores.delta
        cost = (
            f"{100 * lost:.2f} points"
            if scores.first.unit == "share"
            else (f"{lost:.3g} {scores.first.unit}".rstrip())
        )
        what = f"This CPU's kernels cost {cost}" if lost > 0 else "The kernels differ"
        suspects = [layer.name for layer in self.kernels.layers if layer.saturates]
        if suspects and saturates_8bit_products():
            cures = ["Quantize with --reduce-range (7-bit weights)"]
            if self.int8_kernels_help:
                cures = ["Keep its int8 activations int8 with --int8-kernels", *cures]
            return (
                f"{what}: without VNNI, x86 adds products of uint8 activations and int8 weights "
                f"in pairs with 16-bit saturation, in {len(suspects)} of this model's layers. "
                f"{', or '.join(cures)}, set onnxruntime's session.x64quantprecision=1, "
                f"or run on a CPU with VNNI."
            )
        if suspects and saturates_8bit_products() is None:
            return f"{what}. Whether this CPU saturates 8-bit products could not be read."
        return f"{what}; the cause is none that quantscope knows."

    def to_dict(self) -> dict[str, Any]:
        flips = self.evaluation_delta
        return {
            **{key: flips.to_dict()[key] for key in ("delta", "interval_95", "p_value")},
            "by_score": flips.scores.to_dict(),
            "is_real": self.is_real,
            "gained": flips.gained.tolist(),
            "lost": flips.lost.tolist(),
            "changed": len(flips.changed),
            "explanation": self.explanation(),
            "kernel_map": self.kernels.to_dict(),
        }


def kernel_gap(
    model: ModelSource,
    data: SamplesSource,
    *,
    measure: MeasureSource | None = None,
    float_model: ModelSource | None = None,
    batch: int | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> KernelGap:
    """Evaluate a quantized model in both executions."""
    opened = open_model(model)
    if len(opened.executions) == 1:
        raise BadConfigError(
            f"{opened.name} is a PyTorch model, which has only one execution here; "
            f"leave --execution out"
        )
    if opened.is_float:
        raise BadConfigError(
            f"{opened.name} is a float model: it has no integer kernels, so no kernel gap; "
            f"use --execution runtime"
        )
    data = samples_for(opened, data)
    by = {
        execution: evaluate(
            opened,
            data,
            measure=measure,
            float_model=float_model,
            execution=execution,
            batch=batch,
            int8_kernels=int8_kernels,
            threads=threads,
            progress=lambda what, done, total, of=execution: progress(f"{what}, {of}", done, total),
        )
        for execution in ("reference", "runtime")
    }
    return gap_between(by["reference"], by["runtime"], opened, int8_kernels=int8_kernels)


def gap_between(
    reference: Evaluation, runtime: Evaluation, model: ModelSource, *, int8_kernels: bool | None
) -> KernelGap:
    """Find what lies between two evaluations of the same model."""
    opened = open_model(model)
    kernels = kernel_map(opened, int8_kernels=int8_kernels)
    return KernelGap(
        reference=reference,
        runtime=runtime,
        kernels=kernels,
        int8_kernels_help=_saturates(kernels)
        and not _saturates(kernel_map(opened, int8_kernels=True)),
    )


def kernel_map(model: ModelSource, *, int8_kernels: bool | None = None) -> KernelMap:
    """Say how each layer of an ONNX model is executed on this machine in runtime execution."""
    runnable = open_runnable(
        open_model(model).as_onnx("the kernel map"), execution="runtime", int8_kernels=int8_kernels
    )
    found = runnable.kernels()
    assert found is not None, "an ONNX model has kernels"
    return found


def layer_kernels(model: Model, *, int8_kernels: bool | None = None) -> dict[str, LayerKernel]:
    """Give the kernel map by the names of `Network`'s layers."""
    found = kernel_map(model, int8_kernels=int8_kernels).layers
    names = {layer.name for layer in model.network.layers}
    return {kernel.name: kernel for kernel in found if kernel.name in names}


def _saturates(kernels: KernelMap) -> bool:
    return any(layer.saturates for layer in kernels.layers)
