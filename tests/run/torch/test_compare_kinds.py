"""Kinds of programs: odd quantizers, scales by channel, torchao's own, BatchNorm folded in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_bodies
from comparison_nets import (
    sqnr,
)
from tiny_qdq import images_of
from torch import Tensor, nn
from torch.nn import functional
from torch_bodies import SCALES, Net, eager, saved
from torch_nets import save

from quantscope.model import read_network
from quantscope.quantize import PtqConfig
from quantscope.quantize.pt2e import quiet_torch
from quantscope.run.capture.capture import capture
from quantscope.run.compare.compare import compare
from quantscope.run.histograms.histograms import histograms
from quantscope.run.runnable import open_runnable
from quantscope.run.torch.nodes import run_nodes
from quantscope.run.torch.runnable import program_of

Array = np.ndarray[Any, Any]

# Without a sum in the middle between two integers, which NumPy and torch may round differently.
PICTURES = np.random.default_rng(12).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)


class Odd(nn.Module):
    """A narrow range, scales by channel and as tensors, integers that are only moved."""

    def __init__(self, *, quantized: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.side = nn.Conv2d(4, 4, 1)
        self.head = nn.Linear(4 * 35, 3)
        self.register_buffer("scales", torch.tensor([0.02, 0.01, 0.03, 0.025]))
        self.register_buffer("zeros", torch.tensor([3, 5, 0, 7]))
        self.register_buffer("scale", torch.tensor(0.025))
        self.register_buffer("zero", torch.tensor(9))
        self.quantized = quantized

    def forward(self, x: Tensor) -> Tensor:
        ops, u8 = torch.ops.quantized_decomposed, torch.uint8
        if not self.quantized:
            return self.head(torch.flatten(self.side(torch.relu(self.conv(x))), 1))
        given = (0.05, 80, 0, 127, u8)
        x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *given), *given)
        y = torch.relu(self.conv(x))
        by_channel = (self.scales, self.zeros, 1, 0, 255, u8)
        y = ops.dequantize_per_channel(ops.quantize_per_channel(y, *by_channel), *by_channel)
        stored = (self.scale, self.zero, 0, 255, u8)
        integers = torch.flatten(ops.quantize_per_tensor.tensor(self.side(y), *stored), 1)
        return self.head(ops.dequantize_per_tensor.tensor(integers, *stored))


def test_unusual_quantizers_are_compared_or_listed(tmp_path: Path) -> None:
    quantized = save(Odd(quantized=True).eval(), tmp_path / "q.pt2")
    original = save(Odd(quantized=False).eval(), tmp_path / "f.pt2")
    found = compare(quantized, images_of(PICTURES), float_model=original, batch=4)
    names = [t.name for t in read_network(quantized).tensors]
    assert {t.name for t in (*found.tensors, *found.unpaired, *found.unseen)} == set(names)
    values = capture(quantized, images_of(PICTURES))
    floats = capture(original, images_of(PICTURES), [t.float_name for t in found.activations])
    assert found["x"].used_share_of_range is not None
    assert found["x"].clipped_high_fraction == pytest.approx((PICTURES > 47 * 0.05).mean())
    beyond = max(0.0, PICTURES.max() / 0.05 - 47)
    assert beyond > 0 and found["x"].beyond_high_steps == pytest.approx(beyond, rel=1e-5)
    for tensor in found.activations:
        q = values[tensor.name].values
        f = [t.values.reshape(q.shape) for t in floats.tensors.values() if t.values.size == q.size]
        assert any(tensor.sqnr_db == pytest.approx(sqnr(each, q), abs=0.01) for each in f)
        assert tensor.sources is not None or tensor.no_sources


def scales_by_channel(net: Net, v: Tensor) -> Tensor:
    """All integers of the type along the channels, fewer of them along the rows."""
    v = net.by_channel(v, most=255)
    rows = net.by_channel(v[:, :, :4], axis=2, most=160)
    return net.quantized(net.by_channel(rows.permute(0, 2, 3, 1), axis=-1) * 2, 0.1, 128)


def test_clipping_is_that_of_each_channels_range(tmp_path: Path) -> None:
    model, original = saved(scales_by_channel, tmp_path)
    found = compare(model, images_of(torch_bodies.PICTURES), float_model=original, batch=3)
    by_channel = [t for t in found.activations if not t.name.startswith(("x", "linear", "mul"))]
    expected = [each for each in eager(scales_by_channel) if each.low.size > 1]
    assert len(by_channel) == len(expected) == 3
    for tensor, axis, truth in zip(by_channel, (1, 2, 3), expected, strict=True):
        f, low, high = truth.f, truth.low, truth.high
        others = tuple(at for at in range(4) if at != axis)
        assert tensor.sqnr_db == pytest.approx(sqnr(f, truth.q), abs=2e-3)
        assert tensor.clipped_high_fraction == pytest.approx((f > high * (1 + 1e-6)).mean())
        assert tensor.clipped_low_fraction == pytest.approx((f < low * (1 + 1e-6)).mean())
        assert tensor.clipped_high_fraction > 0.01 and tensor.clipped_low_fraction > 0.01
        channels = tensor.channels
        np.testing.assert_allclose(
            [c.clipped_high_fraction for c in channels], (f > high * (1 + 1e-6)).mean(others)
        )
        over = (f.max(others) - high.ravel()) / SCALES
        assert tensor.beyond_high_steps == pytest.approx(over.max(), rel=1e-4)
        under = (low.ravel() - f.min(others)) / SCALES
        assert tensor.beyond_low_steps == pytest.approx(under.max(), rel=1e-4)
        inside = np.clip(f, low, high)
        used = np.ptp(inside, axis=others) / (high - low).ravel()
        np.testing.assert_allclose([c.used_share_of_range for c in channels], used, rtol=1e-5)
        assert tensor.used_share_of_range is None


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.side = nn.Conv2d(6, 6, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.conv(x))
        y = torch.relu(self.side(y) + y)
        return self.head(torch.flatten(self.pool(y), 1))


def values_of(path: Path) -> dict[str, Array]:
    """Every value of a program, by its name in the file."""
    program = program_of(open_runnable(path))
    values = program.start({"x": PICTURES})
    run_nodes(program.nodes, values, model=program.name)
    return {name: v.numpy() for name, v in values.items() if isinstance(v, Tensor)}


def test_sqnr_is_torchaos(tmp_path: Path) -> None:
    """Its numeric debugger mostly looks at what a quantizer is given, `compute_sqnr` at any two."""
    original, quantized = tmp_path / "f.pt2", tmp_path / "q.pt2"
    with quiet_torch(), torch.no_grad():
        from torch.ao.ns.fx.utils import compute_sqnr
        from torchao.quantization.pt2e import (
            compare_results,
            extract_results_from_loggers,
            prepare_for_propagation_comparison,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        from quantscope.quantize.pt2e_quantizer import PtqQuantizer

        images = torch.from_numpy(PICTURES)
        shapes = ({0: torch.export.Dim("batch", min=1, max=64)},)
        exported = torch.export.export(Blocks(), (images,), dynamic_shapes=shapes)
        config = PtqConfig(framework="torch", torch_quantizer="quantscope", observer="minmax")
        observed = prepare_pt2e(exported.module(), PtqQuantizer(config))
        observed(images)
        converted = convert_pt2e(observed)
        looked_into = [
            prepare_for_propagation_comparison(m) for m in (exported.module(), converted)
        ]
        for model in looked_into:
            model(images)
        theirs = compare_results(*map(extract_results_from_loggers, looked_into))
        torch.export.save(exported, original)
        again = torch.export.export(converted, (images,), dynamic_shapes=shapes)
        torch.export.save(again, quantized)
    found = compare(quantized, images_of(PICTURES), float_model=original)
    f, q = values_of(original), values_of(quantized)
    captured = capture(quantized, images_of(PICTURES))
    for tensor in found.activations:
        pair = f[tensor.float_name], captured[tensor.name].values
        expected = float(compute_sqnr(*map(torch.from_numpy, pair)))
        assert tensor.sqnr_db == pytest.approx(expected, abs=0.05), tensor.name
    ours = {tensor.float_name: tensor.sqnr_db for tensor in found.activations}
    after_quantizers = 0
    for info, summary in theirs.items():
        is_after = summary.actual_node_name.startswith("dequantize")
        mine = ours[info.name] if is_after else sqnr(f[info.name], q[info.name])
        assert mine == pytest.approx(float(summary.results[0].sqnr), abs=0.05), info.name
        after_quantizers += is_after
    assert len(theirs) >= 6 and after_quantizers >= 1


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6, eps=0.01)
        self.plain, self.bare = nn.Conv2d(6, 4, 1), nn.BatchNorm2d(4, affine=False)
        self.head = nn.Linear(4, 3)
        for part in (self.norm, self.bare):
            part.running_mean.uniform_(-0.3, 0.3)
            part.running_var.uniform_(0.5, 2)
        nn.init.uniform_(self.norm.weight, -1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bare(self.plain(torch.relu(self.norm(self.conv(x))))))
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


def test_weights_with_a_batch_norm_in_them_are_compared_with_it(tmp_path: Path) -> None:
    from torch.nn.utils.fusion import fuse_conv_bn_weights
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from quantscope.quantize.pt2e_quantizer import PtqQuantizer

    module, images = Normed().eval(), torch.from_numpy(PICTURES)
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    original, quantized = tmp_path / "f.pt2", tmp_path / "q.pt2"
    with quiet_torch(), torch.no_grad():
        exported = torch.export.export(module, (images,), dynamic_shapes=shapes)
        torch.export.save(exported, original)
        config = PtqConfig(framework="torch", torch_quantizer="quantscope", observer="minmax")
        observed = prepare_pt2e(exported.module(), PtqQuantizer(config))
        observed(images)
        again = torch.export.export(convert_pt2e(observed), (images,), dynamic_shapes=shapes)
        torch.export.save(again, quantized)
    found = compare(quantized, images_of(PICTURES), float_model=original)
    conv, norm = module.conv, module.norm
    norms = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    fused = fuse_conv_bn_weights(conv.weight, conv.bias, *norms)[0].detach().numpy()
    network = read_network(quantized)
    stored = network.tensor("conv.weight").values()
    weight = found["conv.weight"]
    assert weight.sqnr_db == pytest.approx(sqnr(fused, stored), abs=1e-3) and weight.sqnr_db > 40
    shown = histograms(quantized, images_of(PICTURES), ["conv.weight"], float_model=original)
    assert shown["conv.weight"]["float"].max == pytest.approx(fused.max(), rel=1e-6)
    (missing,) = found.unpaired
    assert missing.name == "plain.weight" and missing.reason == (
        "BatchNormalization was folded into it; what it was rounded from is not computed here"
    )
