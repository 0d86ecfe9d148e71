"""Capture the values of chosen tensors for chosen samples, as integers and as real numbers."""

from collections.abc import Sequence

from quantscope.data import SamplesSource, check_batch, samples_for
from quantscope.model import Execution, ModelSource
from quantscope.progress import Progress, silent
from quantscope.run.capture.captured import Capture, find_wanted, stored_constants
from quantscope.run.runnable import open_runnable


def capture(
    model: ModelSource,
    images: SamplesSource,
    tensors: Sequence[str] | None = None,
    *,
    execution: Execution | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> Capture:
    """Run every sample of `images` and keep the values of `tensors`.

    Names are those of `Network`, or of the file; a layer's name stands for its output. None means
    all quantized activations. All values are kept: choose samples (`Samples.select`) accordingly.
    `execution` None means reference where a model has it. `threads` and `int8_kernels` are
    onnxruntime's; PyTorch files take none of the second.
    """
    check_batch(batch)
    runnable = open_runnable(
        model, execution=execution, usual="reference", int8_kernels=int8_kernels, threads=threads
    )
    images = samples_for(runnable.model, images)
    wanted = find_wanted(runnable.network, tensors, runnable.is_value)
    stored = stored_constants(wanted)
    computed = [each for each in wanted.values() if each.name not in stored]
    seen = runnable.see(computed, images, batch=batch, progress=progress)
    kept = {**seen.tensors, **stored}
    return Capture(
        model=runnable.name,
        digest=runnable.digest,
        execution=runnable.execution,
        data=images.name,
        indices=images.indices,
        tensors={name: kept[name] for name in wanted if name in kept},
        unseen=seen.unseen,
        outputs=seen.outputs,
        provenance=runnable.provenance,
        kernels=seen.kernels,
        left_out=seen.left_out,
    )
