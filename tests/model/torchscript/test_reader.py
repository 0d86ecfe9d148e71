"""TorchScript archives of FX quantization: read, run, and refused when their code does more."""

import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.nn.quantized as nnq
from torch_archives import rewritten

from quantscope.data import load, load_sample
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import read_network, residuals
from quantscope.model.torch import torch_kind
from quantscope.run import WhatIf, evaluate, open_runnable


@pytest.fixture(autouse=True, scope="module")
def torch_may_say_that_it_will_drop_this() -> Iterator[None]:
    """Making such archives is deprecated; people have them all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*(torch\.jit|quantized tensor creation)")
        yield


class Quantized(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        scales, zeros = torch.rand(6) / 50 + 0.01, torch.zeros(6, dtype=torch.int64)
        self.conv = nnq.Conv2d(3, 6, 3, stride=2, padding=1, groups=3)
        weight = torch.quantize_per_channel(torch.randn(6, 1, 3, 3), scales, zeros, 0, torch.qint8)
        self.conv.set_weight_bias(weight, torch.randn(6))
        self.conv.scale, self.conv.zero_point = 1.5, 128
        self.pool = torch.nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.head = nnq.Linear(6, 10)
        weight = torch.quantize_per_tensor(torch.randn(10, 6), 0.02, 0, torch.qint8)
        self.head.set_weight_bias(weight, None)
        self.head.scale, self.head.zero_point = 0.75, 131

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = torch.quantize_per_tensor(x, 1.0, 0, torch.quint8)
        y = self.conv(q)
        y = torch.ops.quantized.add_relu(y, y, 2.0, 3)
        y = torch.flatten(torch.nn.functional.adaptive_avg_pool2d(self.pool(y), 1), 1)
        return self.head(y).dequantize()


@pytest.fixture(scope="module")
def archives(
    tmp_path_factory: pytest.TempPathFactory, torch_may_say_that_it_will_drop_this: None
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("torchscript")
    paths = {kind: folder / f"{kind}.pt" for kind in ("traced", "scripted")}
    module = Quantized().eval()
    torch.jit.save(torch.jit.trace(module, torch.rand(1, 3, 32, 32)), paths["traced"])
    torch.jit.save(torch.jit.script(module), paths["scripted"])
    return paths


@pytest.fixture
def legacy(shared_folder: Path) -> Path:
    path = shared_folder / "legacy" / "resnet8_int8.pt"
    if not path.is_file():
        pytest.skip("the folder ../shared has no legacy/resnet8_int8.pt")
    return path


@pytest.mark.parametrize("kind", ["traced", "scripted"])
def test_layers_and_packed_weights_are_read(kind: str, archives: dict[str, Path]) -> None:
    network, module = read_network(archives[kind]), Quantized()
    assert network.format == "torchscript"
    types = [(layer.name, layer.op_type) for layer in network.layers]
    assert types[:2] == [("conv", "Conv"), ("add_relu", "Add")]
    assert [op_type for _, op_type in types[2:]] == [
        "MaxPool",
        "GlobalAveragePool",
        "Flatten",
        "Gemm",
    ]
    assert types[-1] == ("head", "Gemm")
    conv = network.layer("conv")
    weight = module.conv.weight()
    assert conv.weight is not None and conv.weight.params.axis == 0
    np.testing.assert_array_equal(conv.weight.integers(), weight.int_repr().numpy())
    scales = weight.q_per_channel_scales().numpy().astype(np.float32)
    np.testing.assert_array_equal(conv.weight.params.scale, scales)
    assert conv.attributes["group"] == 3 and conv.attributes["strides"] == (2, 2)
    assert conv.inputs[2].role == "bias" and conv.inputs[2].dtype == "float32"
    head = network.layer("head").weight
    assert head is not None and head.params.is_per_tensor
    assert head.params.scale == np.float32(0.02)


@pytest.mark.parametrize("kind", ["traced", "scripted"])
def test_activations_have_their_parameters(kind: str, archives: dict[str, Path]) -> None:
    network = read_network(archives[kind])
    x = network.tensor("x")
    assert (x.params.dtype, float(x.params.scale), int(x.params.zero_point)) == ("uint8", 1.0, 0)
    added = network.tensor("add_relu.out")
    assert (float(added.params.scale), int(added.params.zero_point)) == (2.0, 3)
    assert added.folded_relu and not added.clips_negatives  # the kernel has the ReLU
    pooled = network.layers[2].outputs[0].quant
    assert pooled is not None and pooled.follows == "add_relu.out"
    out = network.tensor("head.out")
    assert (float(out.params.scale), int(out.params.zero_point)) == (0.75, 131)
    assert network.outputs[0].quant == out
    assert "can be inspected and evaluated, not edited" in " ".join(network.notes)
    json.dumps(network.to_dict(full=True), allow_nan=False)


def test_shapes_follow_from_the_traced_input(archives: dict[str, Path]) -> None:
    network, module = read_network(archives["traced"]), Quantized()
    y = module.conv(torch.quantize_per_tensor(torch.zeros(1, 3, 32, 32), 1.0, 0, torch.quint8))
    assert network.layer("conv").outputs[0].shape == ("N", *y.shape[1:])
    assert network.layers[2].outputs[0].shape == ("N", *module.pool(y).shape[1:])
    assert network.layer("conv").macs == y.numel() * 9
    unknown = read_network(archives["scripted"])
    assert unknown.layer("conv").outputs[0].shape is None and unknown.macs is None
    assert "does not state its input's shape" in unknown.notes[0]


@pytest.mark.parametrize("kind", ["traced", "scripted"])
def test_an_archive_gives_what_torch_gives(kind: str, archives: dict[str, Path]) -> None:
    sample = load_sample().take(9)
    result = evaluate(archives[kind], sample, batch=4)
    images = torch.from_numpy(sample.images.astype(np.float32))
    expected = torch.cat([Quantized()(part) for part in images.split(4)])
    np.testing.assert_array_equal(result.scores, expected.numpy())
    assert result.execution == "runtime"
    assert result.provenance["quantized engine"] == torch.backends.quantized.engine


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_an_archive_is_not_edited(archives: dict[str, Path], execution: Any) -> None:
    with pytest.raises(BadModelError, match=r"traced\.pt is a TorchScript archive, whose weights"):
        WhatIf(archives["traced"], load_sample().take(3), execution=execution)


def test_an_archive_has_no_reference_execution(archives: dict[str, Path]) -> None:
    with pytest.raises(BadConfigError, match=r"traced\.pt is a TorchScript archive, .* it has no"):
        open_runnable(archives["traced"], execution="reference")


def code_member(path: Path) -> str:
    """Where the packed convolution's code is, whose __setstate__ runs while torch loads it."""
    with zipfile.ZipFile(path) as file:
        names = [n for n in file.namelist() if n.endswith(".py") and "/conv" in n]
        return next(n.partition("/")[2] for n in names if b"__setstate__" in file.read(n))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('torch.save(w, "{}")', r"its code names torch\.save, which opens files"),
        ('_99 = torch.from_file("{}", True, 4)', r"its code names torch\.from_file, which opens"),
        ('(w).save("{}")', r"its code (calls|names) w\.save"),
        ("while True:\n      pass", r"its code has a statement of the kind While"),
        ("_99 = ops.mylib.evil(w)", r"its code names ops\.mylib"),
        ("_99 = torch.hub_load(w)", r"its code names torch\.hub_load"),
        ("import os", r"its code has a statement of the kind Import"),
        ('_99 = eval("1")', r"its code calls eval"),
        ("_99 = __torch__.torch.classes.dist.Store(w)", r"its code (calls|makes an object of)"),
        ("_99 = )", r"its code is not readable"),
    ],
)
def test_code_that_does_more_than_compute_is_refused(
    line: str, message: str, archives: dict[str, Path], tmp_path: Path
) -> None:
    sentinel = tmp_path / "sentinel"
    start = b"    padding_mode = self.padding_mode\n    if torch.eq(padding_mode"
    added = f"    {line.format(sentinel)}\n".encode()

    def changed(content: bytes) -> bytes:
        assert start in content
        return content.replace(start, added + start)

    member = code_member(archives["traced"])
    path = rewritten(archives["traced"], tmp_path / "evil.pt", {member: changed})
    for look in (read_network, open_runnable):
        with pytest.raises(BadModelError, match=message) as refusal:
            look(path)
        assert "\n" not in str(refusal.value)
    assert not sentinel.exists()
    if "torch.save" in line:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.load(path)
        assert sentinel.exists(), "torch does not run this while loading: the test proves nothing"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payload.so": b"x"}, r"it holds 'payload\.so', which torch\.jit\.save does not write"),
        ({"code/evil.py": b""}, r"it holds code at the unusual place 'code/evil\.py'"),
        ({"data.pkl": b"cos\nsystem\n."}, r"its data\.pkl holds os\.system"),
        ({"data.pkl": b"\x00"}, r"its data\.pkl holds something unreadable"),
        ({"data.pkl": b"\x80\x02N."}, r"PyTorch \S+ cannot load d\.pt"),
    ],
)
def test_damaged_archives_are_said_in_one_line(
    changes: dict[str, bytes], message: str, archives: dict[str, Path], tmp_path: Path
) -> None:
    path = rewritten(archives["traced"], tmp_path / "d.pt", changes)
    with pytest.raises(BadModelError, match=message) as refusal:
        read_network(path)
    assert "\n" not in str(refusal.value)


def test_a_truncated_archive_is_said_to_be_cut_short(
    archives: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "cut.pt"
    path.write_bytes(archives["traced"].read_bytes()[:-200])
    with pytest.raises(BadModelError, match=r"cut\.pt is cut short or damaged"):
        read_network(path)


def test_the_kind_does_not_depend_on_the_name(archives: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "named_otherwise.pt2"
    path.write_bytes(archives["traced"].read_bytes())
    assert torch_kind(path) == "torchscript"
    assert read_network(path).format == "torchscript"


def test_the_legacy_resnet8_is_read(legacy: Path) -> None:
    network = read_network(legacy)
    assert network.inputs[0].shape == ("N", 32, 32, 3)
    assert network.macs == 12_501_632
    ratios = [residual.ratio for residual in residuals(network)]
    np.testing.assert_allclose(ratios, [2.883, 2.655, 2.370], atol=0.001)
    convolutions = [layer for layer in network.layers if layer.op_type == "Conv"]
    assert len(convolutions) == 9
    assert all(c.weight and c.weight.params.dtype == "int8" for c in convolutions)
    assert open_runnable(legacy).gives_probabilities


def test_the_legacy_resnet8_evaluates(legacy: Path) -> None:
    result = evaluate(legacy, load_sample().take(60))
    assert result.accuracy > 0.7


@pytest.mark.slow
def test_the_legacy_resnet8_reaches_what_its_authors_report(legacy: Path) -> None:
    assert evaluate(legacy, load("full")).accuracy == pytest.approx(0.8568, abs=0.002)
