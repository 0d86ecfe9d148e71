"""A model that is ready to classify images, whatever file it came from.

Two executions, always named. *Reference* is the arithmetic that the file states; *runtime* is
what ships: the fused kernels. They differ, sometimes by whole points of accuracy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quantscope.data import ImageSet
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.run.onnx.sessions import Execution
from quantscope.zoo import find_model

Dimension = int | None

INPUT_BYTES_A_BATCH = 4 << 20
MAX_BATCH = 256
TORCH_SUFFIXES = (".safetensors", ".pt2", ".pt", ".pth")


@dataclass(frozen=True)
class Classifier:
    """`run` takes images in the model's own layout and type and gives one row of scores each."""

    name: str
    digest: str
    execution: Execution
    input_shape: tuple[Dimension, ...]
    """Without the batch; None where any size goes."""
    input_dtype: np.dtype[np.generic]
    gives_probabilities: bool
    run: Callable[[NDArray[np.generic]], NDArray[np.floating]] = field(repr=False)
    fixed_batch: int | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    def default_batch(self) -> int:
        if self.fixed_batch:
            return self.fixed_batch
        image_bytes = self.input_dtype.itemsize * int(np.prod([d or 1 for d in self.input_shape]))
        return int(np.clip(INPUT_BYTES_A_BATCH // max(image_bytes, 1), 1, MAX_BATCH))


def find_onnx(model: str | Path, reader: str) -> Path:
    """`find_model` for what reads only ONNX: PyTorch files get a line that says how to go on."""
    path = find_model(model)
    if path.suffix in TORCH_SUFFIXES:
        source = model if path.suffix == ".safetensors" else "FLOAT.safetensors"
        raise BadModelError(
            f"{path.name} is a PyTorch model; {reader} reads ONNX files: write a quantized one "
            f"with quantscope quantize {source} -o OUT.pt2 --framework torch --onnx OUT.onnx"
        )
    return path


def open_classifier(
    model: str | Path,
    *,
    execution: Execution | None = None,
    int8_kernels: bool | None = None,
    threads: int = 0,
) -> Classifier:
    """Open an ONNX or PyTorch file, or a bundled model by its name.

    `execution` None means runtime for ONNX and, for PyTorch, the only one there is: reference for
    ResNet8's weights (.safetensors) and programs (.pt2), runtime for TorchScript archives (.pt).
    `int8_kernels` sets onnxruntime's `session.qdqisint8allowed`; None leaves it as the platform has
    it, and PyTorch files take nothing else. `threads` 0 means all cores; for PyTorch they are the
    process's, and not changed here.
    """
    path = find_model(model)
    if path.suffix in TORCH_SUFFIXES:
        refuse_int8_kernels(path, int8_kernels)
        from quantscope.run.torch.classifier import open_torch

        return open_torch(path, execution=execution)
    from quantscope.run.onnx.classifier import open_onnx

    return open_onnx(
        path, execution=execution or "runtime", int8_kernels=int8_kernels, threads=threads
    )


def fitting_input(
    classifier: Classifier, data: ImageSet
) -> Callable[[int, int], NDArray[np.generic]]:
    """A function from a range of rows to the model's input, or one clear line why there is none."""
    wanted, found = classifier.input_shape, data.images.shape[1:]

    def fits(shape: tuple[int, ...]) -> bool:
        return len(shape) == len(wanted) and all(
            w in (None, s) for w, s in zip(wanted, shape, strict=True)
        )

    if data.layout == "as-is":
        if not fits(found):
            raise BadDataError(
                f"{data.name} holds images of shape {_text(found)}, but {classifier.name} takes "
                f"{_text(wanted)}; save them in the model's own shape"
            )
        return lambda start, stop: _as_type(data.images[start:stop], classifier, data)
    channels_last = (*found[1:], found[0])
    if fits(found) and None not in wanted[:1]:
        return lambda start, stop: _as_type(data.images[start:stop], classifier, data)
    if fits(channels_last):
        return lambda start, stop: _as_type(
            data.images[start:stop].transpose(0, 2, 3, 1), classifier, data
        )
    raise BadModelError(
        f"{classifier.name} takes input {_text(wanted)}, which is neither layout of CIFAR-10's "
        f"images, {_text(found)} or {_text(channels_last)}; give fitting ones with --data FILE.npz"
    )


def _as_type(
    images: NDArray[np.generic], classifier: Classifier, data: ImageSet
) -> NDArray[np.generic]:
    dtype = classifier.input_dtype
    if images.dtype == np.uint8 and dtype == np.int8:
        raise BadDataError(
            f"{classifier.name} takes int8, which cannot hold the pixels 0..255 of {data.name}; "
            f"give fitting images with --data FILE.npz"
        )
    return np.ascontiguousarray(images, dtype=dtype)


def _text(shape: tuple[Dimension, ...]) -> str:
    return "[" + ",".join(["N", *("?" if d is None else str(d) for d in shape)]) + "]"


def check_labels(data: ImageSet, classes: int, model: str) -> None:
    if data.labels.max() >= classes or data.labels.min() < 0:
        raise BadDataError(
            f"{data.name} has labels {data.labels.min()}..{data.labels.max()}, but {model} tells "
            f"{classes} classes apart (0..{classes - 1})"
        )


def refuse_int8_kernels(path: Path, int8_kernels: bool | None) -> None:
    """For PyTorch files, which have no such setting."""
    if int8_kernels is not None:
        raise BadConfigError(
            f"{path.name} is a PyTorch model, but int8 kernels are a setting of onnxruntime; "
            f"leave --int8-kernels and --no-int8-kernels out"
        )
