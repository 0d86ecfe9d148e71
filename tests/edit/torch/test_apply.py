"""Edits of PyTorch programs against the same network with the edits made in its source."""

import json
import tempfile
from pathlib import Path
from typing import Any

import comparison_nets
import numpy as np
import pytest
import torch
from comparison_nets import QUANTIZERS, Residual, residual
from tiny_qdq import images_of
from torch import Tensor, nn
from torch_nets import NAMES, FloatNet, QuantizedNet, save

from quantscope.arithmetic import quantize
from quantscope.edit import (
    Applied,
    Edit,
    Editor,
    FlipBit,
    Off,
    OffRole,
    On,
    SetChannel,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
    apply,
)
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError
from quantscope.model import bundled_models, read_network
from quantscope.model.float_original import PROVENANCE_KEY
from quantscope.run import evaluate
from quantscope.zoo import read_safetensors

Array = np.ndarray[Any, Any]

PICTURES = np.random.default_rng(2).normal(0, 1, (7, 3, 5, 7)).astype(np.float32)
WEIGHTS = {"conv": "conv2d.weight", "branch": "conv2d_2.weight", "head": "linear.weight"}


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def paths(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return save(QuantizedNet(net), folder / "q.pt2"), save(FloatNet(net), folder / "f.pt2")


@pytest.fixture(scope="module")
def editor(paths: tuple[Path, Path]) -> Editor:
    return Editor(paths[0], paths[1])


@pytest.fixture(scope="module")
def folded(
    net: Residual, paths: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    path = tmp_path_factory.mktemp("folded") / "folded.pt2"
    return save(QuantizedNet(net, folded=True), path), paths[1]


def eager(module: nn.Module) -> Array:
    with torch.no_grad():
        found: Tensor = module(torch.from_numpy(PICTURES))
    return found.numpy()


def scores(applied: Applied) -> Array:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edited.pt2"
        path.write_bytes(applied.to_bytes())
        return evaluate(path, images_of(PICTURES)).scores


def reread(applied: Applied, folder: Path) -> Any:
    applied.save(folder / "edited.pt2")
    return read_network(folder / "edited.pt2")


def test_no_edits_leave_the_program_as_it_is(
    net: Residual, editor: Editor, paths: tuple[Path, Path]
) -> None:
    before = paths[0].read_bytes()
    applied = editor.apply([])
    assert applied.changes == applied.notes == applied.warnings == ()
    np.testing.assert_array_equal(scores(applied), eager(QuantizedNet(net)))
    assert editor.apply([]).to_bytes() == applied.to_bytes()
    editor.apply([SetScale("x", factor=2), Off("linear")])
    assert paths[0].read_bytes() == before


@pytest.mark.parametrize("key", QUANTIZERS)
def test_scale_and_zero_point_are_those_asked_for(
    key: str,
    net: Residual,
    editor: Editor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, zero, kind = QUANTIZERS[key]
    edits = [SetScale(NAMES[key], 0.0625), SetZeroPoint(NAMES[key], zero + 2)]
    applied = editor.apply(edits)
    assert [(c.tensor, c.kind) for c in applied.changes] == [(NAMES[key], "edit")]
    found = reread(applied, tmp_path).tensor(NAMES[key]).params
    assert (float(found.scale), int(found.zero_point)) == (0.0625, zero + 2)
    monkeypatch.setitem(comparison_nets.QUANTIZERS, key, (0.0625, zero + 2, kind))
    np.testing.assert_array_equal(scores(applied), eager(QuantizedNet(net)))


def test_a_range_becomes_scale_and_zero_point(editor: Editor, tmp_path: Path) -> None:
    found = reread(editor.apply([SetRange("x", -1, 4.1)]), tmp_path).tensor("x").params
    assert float(found.scale) == pytest.approx(5.1 / 255) and int(found.zero_point) == 50


def test_weights_are_rounded_from_the_float_ones(
    net: Residual, editor: Editor, tmp_path: Path
) -> None:
    applied = editor.apply([SetScale("conv2d.weight", factor=0.5)])
    tensor = reread(applied, tmp_path).tensor("conv2d.weight")
    np.testing.assert_array_equal(tensor.params.scale, net.conv.scales * np.float32(0.5))
    np.testing.assert_array_equal(tensor.integers(), quantize(net.conv.weight, tensor.params))
    (change,) = applied.changes
    assert change.integers_changed == np.count_nonzero(tensor.integers() != net.conv.integers)
    assert applied.notes == ()


def test_without_a_float_model_weights_stay_what_they_stand_for(paths: tuple[Path, Path]) -> None:
    applied = apply(paths[0], [SetScale("conv2d.weight", factor=0.5)])
    assert applied.notes == (
        "No float model is known for conv2d.weight: what the integers stand for is taken as the "
        "float values",
    )


@pytest.mark.parametrize(
    ("edit", "place", "value"),
    [
        (SetInteger("conv2d.weight", (1, 2, 0, 1), -77), (1, 2, 0, 1), -77),
        (SetChannel("conv2d.weight", 2, 5), (2,), 5),
        (FlipBit("conv2d.weight", (0, 0, 0, 0), 3), (0, 0, 0, 0), None),
    ],
)
def test_integers_are_set(
    edit: Edit, place: tuple[int, ...], value: int | None, net: Residual, editor: Editor
) -> None:
    integers = net.conv.integers.copy()
    integers[place] = int(integers[place]) ^ 8 if value is None else value
    changed = Residual(
        comparison_nets.Layer(net.conv.weight, integers, net.conv.scales, net.conv.bias),
        net.branch,
        net.head,
    )
    np.testing.assert_array_equal(scores(editor.apply([edit])), eager(QuantizedNet(changed)))


@pytest.mark.parametrize("key", QUANTIZERS)
def test_a_quantizer_that_is_off_is_gone(
    key: str, net: Residual, editor: Editor, tmp_path: Path
) -> None:
    applied = editor.apply([Off(NAMES[key])])
    np.testing.assert_array_equal(scores(applied), eager(QuantizedNet(net, off=(key,))))
    assert NAMES[key] not in [t.name for t in reread(applied, tmp_path).tensors]
    (change,) = applied.changes
    assert change.after is None and change.before is not None


@pytest.mark.parametrize("key", WEIGHTS)
def test_a_weight_that_is_off_is_the_float_one(key: str, net: Residual, editor: Editor) -> None:
    weight = torch.from_numpy(getattr(net, key).weight)
    expected = eager(QuantizedNet(net, weights={key: weight}))
    np.testing.assert_array_equal(scores(editor.apply([Off(WEIGHTS[key])])), expected)


def test_with_everything_off_it_is_the_float_program(
    net: Residual, editor: Editor, tmp_path: Path
) -> None:
    applied = editor.apply([OffRole("weights"), OffRole("activations")])
    np.testing.assert_array_equal(scores(applied), eager(FloatNet(net)))
    assert not reread(applied, tmp_path).is_quantized


def test_on_takes_off_back(editor: Editor) -> None:
    applied = editor.apply([OffRole("activations"), Off("linear.weight"), On("linear.weight")])
    assert "linear.weight" not in {change.tensor for change in applied.changes}
    assert len(applied.changes) == len(QUANTIZERS)


def test_operators_that_write_into_their_input_are_edited_too(
    net: Residual, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    path = save(QuantizedNet(net, in_place=True), tmp_path / "q.pt2")
    applied = apply(path, [Off("relu.out")], float_model=paths[1])
    np.testing.assert_array_equal(
        scores(applied), eager(QuantizedNet(net, in_place=False, off=("conv",)))
    )


def test_a_relu_that_a_quantizer_replaced_is_put_back(
    net: Residual, folded: tuple[Path, Path]
) -> None:
    applied = apply(folded[0], [Off("conv2d.out")], float_model=folded[1])
    assert applied.notes == ("The ReLU that the quantizer of conv2d.out replaced is put back",)
    expected = eager(QuantizedNet(net, folded=True, off=("conv",)))
    np.testing.assert_array_equal(scores(applied), expected)
    unsure = apply(folded[0], [Off("conv2d.out")])
    assert unsure.notes[0].startswith("No float model says whether the quantizer of conv2d.out")
    np.testing.assert_array_equal(scores(unsure), expected)


def test_letting_negatives_through_is_a_warning(folded: tuple[Path, Path]) -> None:
    applied = apply(folded[0], [SetZeroPoint("conv2d.out", 40)], float_model=folded[1])
    (warning,) = applied.warnings
    assert warning.tensor == "conv2d.out"
    assert "would let negative values through" in warning.text


class Odd(nn.Module):
    """A narrow range, scales that are tensors, integers that are moved, an int32 bias."""

    def __init__(self, **changed: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.x_scale, self.moved_off = changed.get("x_scale", 0.03125), changed.get("off", False)
        self.register_buffer("scale", torch.tensor(changed.get("scale", 0.25)))
        self.register_buffer("zero", torch.tensor(9))
        self.register_buffer("w", torch.randint(-127, 128, (4, 3, 1, 1), dtype=torch.int8))
        self.register_buffer("w_scales", torch.tensor([0.5, 0.25, 0.125, 0.5]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))
        steps = torch.tensor([400, -300, 20, 1], dtype=torch.float32)
        bias = steps * 0.03125 * self.w_scales
        self.register_buffer("b_scales", self.x_scale * self.w_scales)
        self.register_buffer("b", torch.round(bias / self.b_scales).to(torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        ops, u8 = torch.ops.quantized_decomposed, torch.uint8
        narrow = (self.x_scale, 60, 0, 127, u8)
        x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *narrow), *narrow)
        w = ops.dequantize_per_channel(self.w, self.w_scales, self.zeros, 0, -127, 127, torch.int8)
        b = ops.dequantize_per_channel(
            self.b, self.b_scales, self.zeros, 0, -(2**31), 2**31 - 1, torch.int32
        )
        y = torch.conv2d(x, w, b)
        if self.moved_off:
            return torch.flatten(y, 1)
        stored = (self.scale, self.zero, 0, 255, u8)
        integers = torch.flatten(ops.quantize_per_tensor.tensor(y, *stored), 1)
        return ops.dequantize_per_tensor.tensor(integers, *stored)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Odd().eval(), tmp_path_factory.mktemp("odd") / "odd.pt2")


def test_scales_that_are_tensors_and_integers_that_are_moved(odd: Path, tmp_path: Path) -> None:
    applied = apply(odd, [SetScale("conv2d.out", 0.5)])
    assert {c.tensor: c.kind for c in applied.changes} == {
        "conv2d.out": "edit",
        "flatten.out": "shared",
    }
    np.testing.assert_array_equal(scores(applied), eager(Odd(scale=0.5)))
    off = apply(odd, [Off("flatten.out")])
    np.testing.assert_array_equal(scores(off), eager(Odd(off=True)))
    assert [t.name for t in reread(off, tmp_path).tensors if t.role == "activation"] == ["x"]


def test_a_bias_follows_its_input(odd: Path) -> None:
    applied = apply(odd, [SetScale("x", factor=2)])
    kinds = {change.tensor: change.kind for change in applied.changes}
    assert kinds == {"x": "edit", "conv2d.bias": "bias follows"}
    np.testing.assert_allclose(scores(applied), eager(Odd(x_scale=0.0625)), atol=1e-6)
    (x,) = (change.after for change in applied.changes if change.tensor == "x")
    # Its quantizer uses 0..127 of uint8, which are the ends that an edit keeps.
    assert x is not None and x.ends == (0, 127)
    assert x.representable_range == (-3.75, 4.1875)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (SetScale("x", 0.0), r"The scale 0 for x is not positive; give a number from"),
        (SetScale("x", float("nan")), r"The scale nan for x is not finite"),
        (SetScale("conv2d.weight", (1.0, 2.0)), r"2 scales are given for conv2d\.weight, which"),
        (SetZeroPoint("x", 256), r"x: .*256"),
        (SetRange("x", 1, 2), r"does not hold 0, which uint8 must represent exactly"),
        (SetScale("relu.outt", 1.0), r"No quantized tensor 'relu\.outt' in q\.pt2; closest: relu"),
        (SetScale("conv2d.out", 1.0), r"'conv2d\.out' is not quantized in q\.pt2"),
        (SetInteger("x", (0,), 1), r"x has no stored integers to set"),
        (SetInteger("conv2d.weight", (9, 0, 0, 0), 1), r"has no element \[9, 0, 0, 0\]"),
        (Off("nothing"), r"No layer or quantized tensor 'nothing' in q\.pt2"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    edit: Edit, message: str, editor: Editor
) -> None:
    with pytest.raises(QuantscopeError, match=message) as error:
        editor.apply([edit])
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_edited_are_refused(paths: tuple[Path, Path], net: Residual) -> None:
    with pytest.raises(BadModelError, match=r"f\.pt2 is not quantized: it has no parameters"):
        Editor(paths[1])
    with pytest.raises(BadModelError, match=r"resnet8\.onnx is no program or weights of PyTorch"):
        Editor(paths[0], "resnet8")
    with pytest.raises(BadModelError, match="do not belong together: 0 of 3 weights have the name"):
        Editor(paths[0], "resnet8-torch")


def test_edited_programs_are_saved_whole_and_say_what_was_done(
    editor: Editor, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    applied = editor.apply([SetScale("x", 0.0625), Off("linear.out")])
    digest = applied.save(tmp_path / "e.pt2")
    network = read_network(tmp_path / "e.pt2")
    assert network.digest == digest
    facts = json.loads(network.metadata[PROVENANCE_KEY])["edited"]
    assert facts["base_digest"] == editor.model.digest and len(facts["edits"]) == 2
    np.testing.assert_array_equal(
        evaluate(tmp_path / "e.pt2", images_of(PICTURES)).scores, scores(applied)
    )
    loaded = torch.export.load(tmp_path / "e.pt2").module()
    with torch.no_grad():
        np.testing.assert_array_equal(loaded(torch.from_numpy(PICTURES)).numpy(), scores(applied))
    for path in paths:
        with pytest.raises(BadConfigError, match="is a file that is read"):
            applied.save(path)
    again = apply(tmp_path / "e.pt2", [SetZeroPoint("x", 7)], float_model=paths[1])
    again.save(tmp_path / "e2.pt2")
    edited = json.loads(read_network(tmp_path / "e2.pt2").metadata[PROVENANCE_KEY])["edited"]
    assert edited["earlier"]["base_digest"] == editor.model.digest


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", ["x86", "quantscope"])
def test_a_quantized_resnet8_with_all_off_is_the_float_one(quantizer: Any, tmp_path: Path) -> None:
    from quantscope.data import load_sample
    from quantscope.quantize import PtqConfig
    from quantscope.quantize.pt2e import quantize_torch

    config = PtqConfig(framework="torch", calibration_images=16, torch_quantizer=quantizer)
    quantize_torch(bundled_models()["resnet8-torch"], tmp_path / "q.pt2", config)
    editor = Editor(tmp_path / "q.pt2")
    weights = read_safetensors(bundled_models()["resnet8-torch"])
    assert editor.pairing is not None
    for pair in editor.pairing.pairs:
        np.testing.assert_array_equal(pair.float_values(), weights[pair.name])
    applied = editor.apply([OffRole("weights"), OffRole("activations")])
    applied.save(tmp_path / "off.pt2")
    sample = load_sample().take(10)
    np.testing.assert_allclose(
        evaluate(tmp_path / "off.pt2", sample).scores,
        evaluate("resnet8-torch", sample).scores,
        atol=1e-4,
    )
