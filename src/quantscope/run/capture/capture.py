"""The values of chosen tensors for chosen images, as integers and as real numbers."""

from collections.abc import Sequence
from pathlib import Path

from quantscope.data import ImageSet
from quantscope.errors import BadConfigError, BadDataError
from quantscope.progress import Progress, silent
from quantscope.run.capture.captured import Capture
from quantscope.run.classifier import TORCH_SUFFIXES, refuse_int8_kernels
from quantscope.run.onnx.capture import capture_onnx
from quantscope.run.onnx.sessions import Execution
from quantscope.zoo import find_model


def capture(
    model: str | Path,
    images: ImageSet,
    tensors: Sequence[str] | None = None,
    *,
    execution: Execution | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Capture:
    """Run every image of `images` and keep the values of `tensors`.

    Names are those of `Network`, or of the file; a layer's name stands for its output. None means
    all quantized activations. All values are kept: choose images (`ImageSet.select`) accordingly.
    `execution` None means reference for ONNX and, for PyTorch, the only one there is. `threads`
    and `int8_kernels` are onnxruntime's; PyTorch files take none of the second.
    """
    path = find_model(model)
    if len(images) == 0:
        raise BadDataError(f"{images.name} holds no images; give at least one")
    if batch is not None and batch < 1:
        raise BadConfigError(f"A batch holds at least one image, not {batch}")
    if path.suffix in TORCH_SUFFIXES:
        refuse_int8_kernels(path, int8_kernels)
        from quantscope.run.torch.capture import capture_torch

        return capture_torch(
            path, images, tensors, execution=execution, batch=batch, progress=progress
        )
    return capture_onnx(
        path,
        images,
        tensors,
        execution=execution or "reference",
        int8_kernels=int8_kernels,
        threads=threads,
        batch=batch,
        progress=progress,
    )
