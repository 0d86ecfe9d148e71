"""Values inside PyTorch files against those that torch itself computes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.nn.quantized as nnq
from comparison_nets import Residual, residual
from tiny_qdq import images_of
from torch_nets import NAMES, FloatNet, QuantizedNet, save

from quantscope.arithmetic import dequantize
from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import read_network
from quantscope.run import evaluate
from quantscope.run.capture.capture import capture
from quantscope.run.capture.captured import Capture

# Making TorchScript archives is deprecated; people have them all the same.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:.*(torch\.jit|quantized tensor creation)",
)

PICTURES = np.random.default_rng(2).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def program(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(QuantizedNet(net), tmp_path_factory.mktemp("programs") / "q.pt2")


def eager(module: QuantizedNet, batch: int = 7) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Integers of each quantizer, and what comes out."""
    seen: dict[str, list[np.ndarray]] = {}
    outputs = []
    with torch.no_grad():
        for part in torch.from_numpy(PICTURES).split(batch):
            outputs.append(module(part).numpy())
            for key, value in module.seen.items():
                seen.setdefault(key, []).append(value.numpy().copy())
    return {key: np.concatenate(parts) for key, parts in seen.items()}, np.concatenate(outputs)


def check_program(found: Capture, expected: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    for key, integers in expected[0].items():
        tensor = found[NAMES[key]]
        np.testing.assert_array_equal(tensor.integers, integers, err_msg=key)
        assert tensor.integers is not None and tensor.params is not None
        assert tensor.integers.dtype == tensor.params.dtype
        np.testing.assert_array_equal(tensor.values, dequantize(integers, tensor.params))
    (scores,) = found.outputs.values()
    np.testing.assert_array_equal(scores, expected[1])


def test_a_programs_integers_are_those_that_torch_computes(net: Residual, program: Path) -> None:
    found = capture(program, images_of(PICTURES))
    assert found.execution == "reference" and found.unseen == {} and found.kernels is None
    assert list(found.tensors) == list(NAMES.values())
    assert found.provenance["torch"] == torch.__version__
    check_program(found, eager(QuantizedNet(net)))


def test_batches_do_not_show(net: Residual, program: Path) -> None:
    check_program(capture(program, images_of(PICTURES), batch=3), eager(QuantizedNet(net), 3))


def test_operators_that_write_into_their_input_do_not_disturb(
    net: Residual, tmp_path: Path
) -> None:
    path = save(QuantizedNet(net, in_place=True), tmp_path / "q.pt2")
    names = ["relu.out", "conv2d_2.out", "relu_2.out", "conv2d"]
    found = capture(path, images_of(PICTURES), names)
    expected, _ = eager(QuantizedNet(net, in_place=True))
    for key, name in zip(("conv", "branch", "add"), names, strict=False):
        np.testing.assert_array_equal(found[name].integers, expected[key], err_msg=key)
    assert found["conv2d.out"].values.min() < 0  # what the ReLU was given, not what it left


@pytest.mark.parametrize("batch", [4, (3, 5)])
def test_batches_stay_within_what_was_exported(
    batch: Any, net: Residual, program: Path, tmp_path: Path
) -> None:
    path = save(QuantizedNet(net), tmp_path / "q.pt2", batch=batch)
    found, free = (capture(p, images_of(PICTURES)) for p in (path, program))
    for name, tensor in free.tensors.items():
        np.testing.assert_array_equal(found[name].integers, tensor.integers, err_msg=name)
        assert len(tensor.values) == 7


def test_values_go_by_every_name_they_have(program: Path) -> None:
    tensor = read_network(program).tensor("conv2d_2.out")
    names = ("conv2d_2", tensor.float_name, *tensor.integer_names, *tensor.dequantized_names)
    for name in names:
        assert list(capture(program, images_of(PICTURES), [name]).tensors) == ["conv2d_2.out"]
    weight = capture(program, images_of(PICTURES), ["conv2d.weight"])["conv2d.weight"]
    assert weight.integers is not None and weight.integers.shape == (4, 3, 3, 3)
    before = capture(program, images_of(PICTURES), ["conv2d"])["conv2d.out"]
    assert before.integers is None and before.values.min() < 0


def test_a_float_program_has_values_and_no_integers(net: Residual, tmp_path: Path) -> None:
    path = save(FloatNet(net), tmp_path / "f.pt2")
    found = capture(path, images_of(PICTURES), ["conv2d_2", "relu.out"])
    with torch.no_grad():
        module = FloatNet(net)
        x = torch.from_numpy(PICTURES)
        expected = torch.relu(torch.conv2d(x, module.conv_w, module.conv_b, padding=1))
    np.testing.assert_array_equal(found["relu.out"].values, expected.numpy())
    assert found["conv2d_2.out"].integers is None
    assert capture(path, images_of(PICTURES)).tensors == {}


def test_resnet8s_weights_are_captured_as_the_network_that_they_are() -> None:
    sample = load_sample().take(2)
    found = capture("resnet8-torch", sample, ["stack1.relu2", "head"])
    assert found["stack1.relu2.out"].values.shape == (2, 16, 32, 32)
    scores = evaluate("resnet8-torch", sample)
    np.testing.assert_allclose(found["head.out"].values, scores.scores, rtol=1e-5, atol=1e-4)
    assert (found.model, found.digest) == ("resnet8.safetensors", scores.digest)


class Script(torch.nn.Module):
    """Quantized modules, a residual, a module called twice, and layers on integers."""

    def __init__(self, *, loop: bool = False) -> None:
        super().__init__()
        torch.manual_seed(2)
        scales, zeros = torch.rand(3) / 50 + 0.01, torch.zeros(3, dtype=torch.int64)
        self.conv = nnq.Conv2d(3, 3, 3, padding=1, groups=3)
        weight = torch.quantize_per_channel(torch.randn(3, 1, 3, 3), scales, zeros, 0, torch.qint8)
        self.conv.set_weight_bias(weight, torch.randn(3))
        self.conv.scale, self.conv.zero_point = 0.05, 128
        self.head = nnq.Linear(3, 10)
        weight = torch.quantize_per_tensor(torch.randn(10, 3), 0.02, 0, torch.qint8)
        self.head.set_weight_bias(weight, None)
        self.head.scale, self.head.zero_point = 0.03, 131
        self.loop = loop
        self.seen: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = torch.quantize_per_tensor(x, 0.03, 120, torch.quint8)
        once = self.conv(q)
        twice = self.conv(once)
        added = torch.ops.quantized.add_relu(once, twice, 0.07, 3)
        if self.loop:
            for _ in range(int(x.shape[0])):
                added = torch.ops.quantized.add_relu(added, twice, 0.07, 3)
        pooled = torch.nn.functional.adaptive_avg_pool2d(added, 1)
        out = self.head(torch.flatten(pooled, 1))
        if not torch.jit.is_scripting():
            self.seen = {"x": q, "conv.out": once, "conv.2.out": twice, "add_relu.out": added}
            self.seen |= {"adaptive_avg_pool2d.out": pooled, "head.out": out}
        return out.dequantize()


def archived(path: Path, kind: str, **options: bool) -> Path:
    module = Script(**options).eval()
    if kind == "traced":
        made = torch.jit.trace(module, torch.rand(2, 3, 5, 7))
    else:
        del module.seen
        made = torch.jit.script(module)
    torch.jit.save(made, path)
    return path


@pytest.mark.parametrize("kind", ["traced", "scripted"])
def test_an_archives_integers_are_those_of_its_kernels(kind: str, tmp_path: Path) -> None:
    path = archived(tmp_path / "s.pt", kind)
    found = capture(path, images_of(PICTURES), batch=4)
    assert found.execution == "runtime" and found.unseen == {}
    activations = [t for t in read_network(path).tensors if t.role == "activation"]
    assert len(found.tensors) == len(activations) >= 6
    module = Script()
    with torch.no_grad():
        scores = module(torch.from_numpy(PICTURES))
    integers = {value.int_repr().numpy().tobytes() for value in module.seen.values()}
    captured = {t.integers.tobytes() for t in found.tensors.values() if t.integers is not None}
    assert integers <= captured
    np.testing.assert_array_equal(
        found["add_relu.out"].values, module.seen["add_relu.out"].dequantize().numpy()
    )
    (outputs,) = found.outputs.values()
    np.testing.assert_array_equal(outputs, scores.numpy())
    for tensor in found.tensors.values():
        assert tensor.params is not None and tensor.integers is not None
        np.testing.assert_array_equal(tensor.values, dequantize(tensor.integers, tensor.params))


def test_what_an_archive_does_not_let_see_is_said(tmp_path: Path) -> None:
    found = capture(archived(tmp_path / "s.pt", "scripted", loop=True), images_of(PICTURES))
    assert "add_relu.out" in found.tensors
    assert found.unseen["head.out"] == "prim::Loop is not followed"
    with pytest.raises(BadModelError, match=r"head\.out of s\.pt cannot be seen: prim::Loop is"):
        found["head.out"]
    (outputs,) = found.outputs.values()
    assert outputs.shape == (7, 10)


def test_the_legacy_archive_can_be_seen_whole(shared_folder: Path) -> None:
    path = shared_folder / "legacy" / "resnet8_int8.pt"
    if not path.is_file():
        pytest.skip("the folder ../shared has no legacy/resnet8_int8.pt")
    sample = load_sample().take(3)
    found = capture(path, sample)
    assert len(found.tensors) == 35 and found.unseen == {}
    (outputs,) = found.outputs.values()
    np.testing.assert_array_equal(outputs, evaluate(path, sample).scores)


def test_bad_requests_get_one_line(program: Path, tmp_path: Path) -> None:
    pictures = images_of(PICTURES)
    with pytest.raises(BadModelError, match=r"No layer or quantized tensor 'conv9' in"):
        capture(program, pictures, ["conv9"])
    with pytest.raises(BadConfigError, match=r"q\.pt2 is a PyTorch model, which has no runtime"):
        capture(program, pictures, execution="runtime")
    with pytest.raises(BadConfigError, match="int8 kernels are a setting of onnxruntime; leave"):
        capture(program, pictures, int8_kernels=True)
    with pytest.raises(BadConfigError, match="A batch holds at least one image, not 0"):
        capture(program, pictures, batch=0)
    with pytest.raises(BadDataError, match="holds no images"):
        capture(program, images_of(np.zeros((0, 3, 5, 7), np.float32)))
    with pytest.raises(BadDataError, match=r"holds images of shape \[N,3,4,4\], but q\.pt2 takes"):
        capture(program, images_of(np.zeros((2, 3, 4, 4), np.float32)))
    archive = archived(tmp_path / "s.pt", "scripted")
    with pytest.raises(BadConfigError, match="it has no reference execution; use --execution"):
        capture(archive, pictures, execution="reference")
