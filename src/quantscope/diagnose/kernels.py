"""The kernels whose cost a diagnosis tells: those of this CPU, or of one without VNNI."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quantscope.data import Samples
from quantscope.errors import BadModelError
from quantscope.model import Network, QuantTensor
from quantscope.model.onnx import OnnxModel
from quantscope.plain_text import many
from quantscope.progress import Progress, silent
from quantscope.run import (
    KernelMap,
    Outputs,
    cpu_name,
    gather_outputs,
    open_runnable,
    saturates_8bit_products,
)

Cpu = Literal["this", "no-vnni"]
_INT16_END = 2**15 - 1
_LARGEST_UINT8 = 255


@dataclass(frozen=True)
class Kernels:
    """The thing that runs a model as it ships: onnxruntime here, or its AVX2 kernels, predicted.

    A prediction is made by exact integers in NumPy, about 20 images a second for ResNet8.
    """

    cpu: Cpu = "this"
    threads: int = 0

    @property
    def saturates(self) -> bool | None:
        """Say whether products of uint8 and int8 saturate at 16 bits; None if unknown."""
        return True if self.cpu == "no-vnni" else saturates_8bit_products()

    @property
    def is_predicted(self) -> bool:
        return self.cpu == "no-vnni" and saturates_8bit_products() is not True

    @property
    def owner(self) -> str:
        """Say whose kernels they are: `kernels of ...`."""
        return "a CPU without VNNI, predicted" if self.is_predicted else "this CPU"

    def outputs(
        self, model: OnnxModel, samples: Samples, *, progress: Progress = silent
    ) -> Outputs:
        """Run all samples by these kernels."""
        if not self.is_predicted:
            runnable = open_runnable(model, execution="runtime", threads=self.threads)
            return gather_outputs(runnable, samples, progress=progress).outputs
        from quantscope.run.integers import predict_answers_without_vnni

        names = [operand.name for operand in model.network.outputs]
        if len(names) != 1:
            raise BadModelError(
                f"{model.name} has {len(names)} outputs; kernels without VNNI are predicted for "
                f"models with one"
            )
        return {names[0]: predict_answers_without_vnni(model, samples, progress=progress)}


def saturating_layers(network: Network, kernels: KernelMap | None) -> Mapping[str, QuantTensor]:
    """Give the weights, by layer, of which two products of uint8 can leave 16 bits.

    The kernel map knows which layers multiply uint8 by int8; 7-bit weights do no harm there.
    """
    suspects = {k.name for k in kernels.layers if k.saturates} if kernels is not None else set()
    found = {}
    for layer in network.layers:
        weight = layer.weight
        if layer.name not in suspects or weight is None or not weight.has_data:
            continue
        largest = int(np.abs(weight.integers().astype(np.int64)).max(initial=0))
        if 2 * largest * _LARGEST_UINT8 > _INT16_END:
            found[layer.name] = weight
    return found


def kernel_notes(network: Network, kernels: KernelMap | None, of: Kernels) -> list[str]:
    """Say what other CPUs would do, and which layers this one runs as float for want of an option.

    Neither is a defect of the model on this CPU.
    """
    notes = []
    suspects = saturating_layers(network, kernels)
    if suspects and not of.saturates:
        here = (
            f"this CPU ({cpu_name()}) does not"
            if of.saturates is False
            else "whether this one does could not be read"
        )
        notes.append(
            f"{many(len(suspects), 'layer')} {'multiply' if len(suspects) > 1 else 'multiplies'} "
            f"uint8 by int8: an x86 CPU without VNNI adds "
            f"such products in pairs with 16-bit saturation, {here}. What that would cost: "
            f"--cpu no-vnni."
        )
    waiting = [] if kernels is None else [k for k in kernels.layers if waits_for_option(k.why)]
    if kernels is not None and waiting:
        notes.append(
            f"{len(waiting)} of {kernels.computing_layers} layers run as float here: onnxruntime "
            f"fuses them only with session.qdqisint8allowed=1 (--int8-kernels)."
        )
    return notes


def waits_for_option(why: str | None) -> bool:
    """Say whether a layer is float only for want of a session option."""
    return why is not None and "--int8-kernels" in why
