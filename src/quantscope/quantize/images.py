"""Give calibration images in the shape and type that a model takes."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples, balanced_order, calibration_set
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import Port, show_shape
from quantscope.model.onnx import OnnxFile, classifier_input
from quantscope.quantize.config import PtqConfig

MAX_BATCH = 32
INPUT_BYTES_A_BATCH = 1 << 19  # every activation of a batch is in memory at once


def choose_images(config: PtqConfig, given: Samples | None) -> Samples:
    """Choose CIFAR-10 training images, or given ones, by the config's count and seed."""
    count, seed = config.calibration_images, config.calibration_seed
    if given is None:
        return calibration_set(count, seed)
    if count > len(given):
        raise BadDataError(
            f"{count:,} calibration images were asked for, but {given.name} has {len(given):,}; "
            f"use --calibration-images {len(given)}"
        )
    if count == len(given):
        return given
    if given.targets is None:
        order = np.random.default_rng(seed).permutation(len(given))
    else:
        order = balanced_order(given.targets, seed=seed)
    return given.select(order[:count])


def input_spec(file: OnnxFile) -> Port:
    """Give the model's one input; refuse one with an open dimension besides the batch."""
    spec = classifier_input(file)
    if not all(isinstance(dim, int) for dim in (spec.shape or ())[1:]):
        raise BadModelError(
            f"The input {spec.name!r} of {file.path} has the shape {show_shape(spec.shape)}; only "
            "the batch may be open, so export the model with its image size fixed"
        )
    if spec.dtype not in ("float32", "float16"):
        raise BadModelError(
            f"The input {spec.name!r} of {file.path} is {spec.dtype}; a model to quantize "
            "takes float32 or float16 images"
        )
    return spec


def batches(images: Samples, spec: Port, *, model: str) -> Iterator[NDArray[np.generic]]:
    """Give the images in the model's layout and type, by batches; nothing larger is copied."""
    fixed, *shape = spec.shape or ()
    wanted, found = tuple(shape), tuple(images.images.shape[1:])
    channels_last = images.layout == "nchw-pixels" and wanted == (*found[1:], found[0])
    if wanted != found and not channels_last:
        cure = (
            "save them in the model's own shape"
            if images.layout == "as-is"
            else "give fitting ones with --calibration-data FILE.npz"
        )
        raise BadDataError(
            f"The calibration images of {images.name} have the shape {list(found)}, but {model} "
            f"takes {list(wanted)}; {cure}"
        )
    dtype = np.dtype(spec.dtype)
    image_bytes = dtype.itemsize * int(np.prod(found))
    size = max(1, min(MAX_BATCH, INPUT_BYTES_A_BATCH // max(image_bytes, 1)))
    if isinstance(fixed, int):
        size = fixed
        if len(images) % fixed:
            raise BadConfigError(
                f"{model} takes {fixed} images at once, and {len(images)} calibration images do "
                f"not divide by that; choose a multiple of {fixed}"
            )
    return _slices(images, size, dtype, channels_last=channels_last)


def _slices(
    images: Samples, size: int, dtype: np.dtype[np.generic], *, channels_last: bool
) -> Iterator[NDArray[np.generic]]:
    for start in range(0, len(images), size):
        batch = images.images[start : start + size]
        if channels_last:
            batch = batch.transpose(0, 2, 3, 1)
        yield np.ascontiguousarray(batch, dtype=dtype)
