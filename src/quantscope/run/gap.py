"""The kernel gap: what a model loses to the kernels that run it, not to its quantization."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from quantscope.data import ImageSet
from quantscope.errors import BadConfigError
from quantscope.model.onnx import load_onnx
from quantscope.progress import Progress, silent
from quantscope.run.classifier import TORCH_SUFFIXES
from quantscope.run.cpu import saturates_8bit_products
from quantscope.run.evaluate import Evaluation, PairedDelta, evaluate, paired
from quantscope.run.kernels import KernelMap, kernel_map
from quantscope.zoo import find_model

SIGNIFICANT_P = 0.05


@dataclass(frozen=True)
class KernelGap:
    """The same images through the arithmetic that the file states and through what ships."""

    reference: Evaluation
    runtime: Evaluation
    kernels: KernelMap
    int8_kernels_help: bool
    """Whether nothing saturates with `int8_kernels`: onnxruntime made uint8 of the file's int8."""

    @cached_property
    def paired(self) -> PairedDelta:
        """Runtime minus reference."""
        return paired(self.runtime, self.reference)

    @property
    def is_real(self) -> bool:
        """Whether the paired test says that the two accuracies differ, at the 5 % level."""
        return self.paired.p_value < SIGNIFICANT_P

    def explanation(self) -> str | None:
        """Why the kernels differ from the stated arithmetic; None when the gap may be chance."""
        if not self.is_real:
            return None
        lost = -100 * self.paired.delta
        what = f"This CPU's kernels cost {lost:.2f} points" if lost > 0 else "The kernels differ"
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
        flips = self.paired
        return {
            "delta": flips.delta,
            "interval_95": list(flips.interval_95),
            "p_value": flips.p_value,
            "is_real": self.is_real,
            "gained": flips.gained.tolist(),
            "lost": flips.lost.tolist(),
            "changed": len(flips.changed),
            "explanation": self.explanation(),
            "kernel_map": self.kernels.to_dict(),
        }


def kernel_gap(
    model: str | Path,
    data: ImageSet,
    *,
    batch: int | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> KernelGap:
    """Evaluate a quantized ONNX model in both executions."""
    path = find_model(model)
    if path.suffix in TORCH_SUFFIXES:
        raise BadConfigError(
            f"{path.name} is a PyTorch model, which has only one execution here; "
            f"leave --execution out"
        )
    if load_onnx(path).format == "float":
        raise BadConfigError(
            f"{path.name} is a float model: it has no integer kernels, so no kernel gap; "
            f"use --execution runtime"
        )
    by = {
        execution: evaluate(
            path,
            data,
            execution=execution,
            batch=batch,
            int8_kernels=int8_kernels,
            threads=threads,
            progress=lambda what, done, total, of=execution: progress(f"{what}, {of}", done, total),
        )
        for execution in ("reference", "runtime")
    }
    return gap_between(by["reference"], by["runtime"], path, int8_kernels=int8_kernels)


def gap_between(
    reference: Evaluation, runtime: Evaluation, path: Path, *, int8_kernels: bool | None
) -> KernelGap:
    """What lies between two evaluations of the model at `path`."""
    kernels = kernel_map(path, int8_kernels=int8_kernels)
    return KernelGap(
        reference=reference,
        runtime=runtime,
        kernels=kernels,
        int8_kernels_help=_saturates(kernels)
        and not _saturates(kernel_map(path, int8_kernels=True)),
    )


def _saturates(kernels: KernelMap) -> bool:
    return any(layer.saturates for layer in kernels.layers)
