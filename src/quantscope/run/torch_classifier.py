"""PyTorch models as classifiers. Needs the `torch` extra."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quantscope.run.classifier import Classifier
from quantscope.zoo import build_torch, read_safetensors


def open_torch(path: Path) -> Classifier:
    """ResNet8 from its weights, executed eagerly: the arithmetic that the module states."""
    module = build_torch(read_safetensors(path))
    import torch

    def run(images: NDArray[np.generic]) -> NDArray[np.floating]:
        with torch.inference_mode():
            scores: NDArray[np.floating] = module(torch.from_numpy(images)).numpy()
        return scores

    return Classifier(
        name=path.name,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        execution="reference",
        input_shape=(3, 32, 32),
        input_dtype=np.dtype(np.float32),
        gives_probabilities=False,
        run=run,
        provenance={"torch": torch.__version__},
    )
