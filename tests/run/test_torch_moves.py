"""Layers of a program that only move integers about."""

from pathlib import Path

import torch
from tiny_qdq import images_of
from torch import Tensor
from torch_bodies import PICTURES, Net, saved

from quantscope.run.compare import compare
from quantscope.run.compare_results import ErrorSources


def turned(net: Net, v: Tensor) -> Tensor:
    if not net.is_quantized:
        return torch.relu(v).permute(0, 1, 3, 2)
    ops, params = torch.ops.quantized_decomposed, (0.03, 0, 0, 255, torch.uint8)
    integers = ops.quantize_per_tensor(torch.relu(v), *params)
    return ops.dequantize_per_tensor(integers.permute(0, 1, 3, 2), *params)


def test_a_layer_that_only_moves_integers_inherits_all(tmp_path: Path) -> None:
    model, original = saved(turned, tmp_path)
    found = compare(model, images_of(PICTURES), float_model=original)
    (moved,) = (t for t in found.activations if t.layer is not None and "permute" in t.layer)
    assert moved.sources == ErrorSources(1.0, 0.0, 0.0, 0.0, None, {})
    assert moved.no_sources is None and moved.sqnr_db is not None
