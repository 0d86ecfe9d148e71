"""Measure how closely a PT2E program and its ONNX form agree."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from quantscope.data import Samples
from quantscope.model.torch import ProgramModel, load_program, nest_inputs

_FLOAT32_ROUNDING = 1e-5
"""The rounding allowed, as a fraction of the largest logit.

A step of a quantizer moves logits by a thousand times as much.
"""
_ROWS_AT_ONCE = 100


@dataclass(frozen=True)
class Agreement:
    """The agreement of logits, both files run as they state (onnxruntime without optimizations).

    They state the same arithmetic, but torch and onnxruntime add a convolution's products in
    different orders. Where that moves a sum across the middle between two integers, its quantizer
    rounds the other way, and what follows may differ by a step. `identical_images` have the same
    logits bit for bit, `close_images` also where only float32 rounding of the last layer differs,
    which programs without a quantizer at their output always have. `same_class` is None where the
    first output has no scores of classes, and differences are those of all outputs.
    """

    images: int
    same_class: int | None
    identical_images: int
    close_images: int
    largest_difference: float
    mean_difference: float

    @property
    def class_agreement(self) -> float | None:
        return None if self.same_class is None else self.same_class / self.images

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"class_agreement": self.class_agreement}


def program_agreement(program: Path, onnx_file: Path, images: Samples) -> Agreement:
    """Run both on the images and compare all that they give."""
    model = ProgramModel(program, str(program))
    loaded = load_program(model.file)
    module: Any = loaded.module()
    import torch
    from torch.utils._pytree import tree_flatten

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(onnx_file), options, providers=["CPUExecutionProvider"])
    fixed = (model.inputs[0].shape or ("N",))[0]
    rows = fixed if isinstance(fixed, int) else _ROWS_AT_ONCE
    # An incomplete batch at the end is left out where the model takes no other.
    count = len(images) - (len(images) % rows if fixed == rows else 0)
    ours, theirs = [], []
    for start in range(0, count, rows):
        feeds = [
            np.ascontiguousarray(array[start : start + rows], dtype=port.dtype)
            for port, array in zip(model.inputs, _arrays(model, images), strict=True)
        ]
        args, kwargs = nest_inputs(loaded, [torch.from_numpy(each) for each in feeds])
        with torch.no_grad():
            given, _ = tree_flatten(module(*args, **kwargs))
        ours.append([each.numpy() for each in given])
        names = [value.name for value in session.get_inputs()]
        theirs.append(session.run(None, dict(zip(names, feeds, strict=True))))
    left, right = ([np.concatenate(part) for part in zip(*side, strict=True)]
                   for side in (ours, theirs))  # fmt: skip
    differences = [
        np.abs(a.astype(np.float64) - b).reshape(len(a), -1)
        for a, b in zip(left, right, strict=True)
    ]
    largest = np.max([each.max(axis=1) for each in differences], axis=0)
    close = np.all(
        [
            each.max(axis=1) <= _FLOAT32_ROUNDING * np.abs(b.astype(np.float64)).max()
            for each, b in zip(differences, right, strict=True)
        ],
        axis=0,
    )
    has_classes = left[0].ndim == 2 and left[0].shape[1] > 1
    same = int((left[0].argmax(1) == right[0].argmax(1)).sum()) if has_classes else None
    return Agreement(
        images=count,
        same_class=same,
        identical_images=int((largest == 0).sum()),
        close_images=int(close.sum()),
        largest_difference=float(largest.max()),
        mean_difference=float(np.concatenate([each.ravel() for each in differences]).mean()),
    )


def _arrays(model: ProgramModel, rows: Samples) -> list[Any]:
    """Give the array of each input; a lone one fits a lone input whatever they are called."""
    if len(model.inputs) == 1 and len(rows.arrays) == 1:
        return [rows.images]
    return [rows.arrays[port.name] for port in model.inputs]
