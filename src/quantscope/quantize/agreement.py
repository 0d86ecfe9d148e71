"""Measure how closely a PT2E program and its ONNX form agree."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from quantscope.data import Samples
from quantscope.model.torch import load_program, open_pt2

_FLOAT32_ROUNDING = 1e-5
"""The rounding allowed, as a fraction of the largest logit.

A step of a quantizer moves logits by a thousand times as much.
"""


@dataclass(frozen=True)
class Agreement:
    """The agreement of logits, both files run as they state (onnxruntime without optimizations).

    They state the same arithmetic, but torch and onnxruntime add a convolution's products in
    different orders. Where that moves a sum across the middle between two integers, its quantizer
    rounds the other way, and what follows may differ by a step. `identical_images` have the same
    logits bit for bit, `close_images` also where only float32 rounding of the last layer differs,
    which programs without a quantizer at their output always have.
    """

    images: int
    same_class: int
    identical_images: int
    close_images: int
    largest_difference: float
    mean_difference: float

    @property
    def class_agreement(self) -> float:
        return self.same_class / self.images

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"class_agreement": self.class_agreement}


def program_agreement(program: Path, onnx_file: Path, images: Samples) -> Agreement:
    """Run both on the images and compare their logits."""
    module = load_program(open_pt2(program)).module()
    import torch

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(onnx_file), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    ours, theirs = [], []
    for start in range(0, len(images), 100):
        batch = np.ascontiguousarray(images.images[start : start + 100], dtype=np.float32)
        with torch.no_grad():
            ours.append(module(torch.from_numpy(batch)).numpy())
        theirs.append(session.run(None, {name: batch})[0])
    torch_logits, onnx_logits = np.concatenate(ours), np.concatenate(theirs)
    difference = np.abs(torch_logits.astype(np.float64) - onnx_logits)
    rounding = _FLOAT32_ROUNDING * np.abs(onnx_logits).max()
    return Agreement(
        images=len(images),
        same_class=int((torch_logits.argmax(1) == onnx_logits.argmax(1)).sum()),
        identical_images=int((difference.max(axis=1) == 0).sum()),
        close_images=int((difference.max(axis=1) <= rounding).sum()),
        largest_difference=float(difference.max()),
        mean_difference=float(difference.mean()),
    )
