"""PT2E programs read from their own JSON, held against what torch computes with them."""

import json
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch_archives import PROGRAM, WEIGHTS, json_change, rewritten, save_small, small

from quantscope.errors import BadModelError, QuantscopeError
from quantscope.model import read_network, read_onnx, residuals
from quantscope.quantize import PtqConfig
from quantscope.quantize.pt2e import quantize_torch
from quantscope.zoo import Weights, build_onnx, write_safetensors

Q = torch.ops.quantized_decomposed


class Quantized(torch.nn.Module):
    """By hand what PT2E makes, in the forms that its overloads have.

    Input as floats per tensor, a weight quantized in the graph per channel on axis 1 of a
    transposed one, one stored as int8, a value quantized twice, and a scale stored as a tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.conv = torch.nn.Conv2d(3, 6, 3, stride=(1, 2), padding=(0, 1), groups=3)
        self.register_buffer("weight8", torch.randint(-64, 64, (10, 6), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(6) / 50 + 0.001)
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))
        self.register_buffer("step", torch.tensor([0.0123], dtype=torch.float64))
        self.register_buffer("zero", torch.tensor([5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 0.1 + 1e-9  # not a float32
        q = Q.quantize_per_tensor(x, scale, 7, 0, 255, torch.uint8)
        x1 = Q.dequantize_per_tensor(q, scale, 7, 0, 255, torch.uint8)
        w = Q.quantize_per_channel(
            self.conv.weight, self.scales, self.zeros, 0, -127, 127, torch.int8
        )
        w = Q.dequantize_per_channel(w, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = torch.nn.functional.conv2d(x1, w, self.conv.bias, (1, 2), (0, 1), 1, 3)
        q = Q.quantize_per_tensor.tensor(y, self.step, self.zero, -128, 127, torch.int8)
        y = Q.dequantize_per_tensor.tensor(q, self.step, self.zero, -128, 127, torch.int8)
        y = y.mean((2, 3))
        v = Q.dequantize_per_tensor(self.weight8, 0.02, 0, -64, 63, torch.int8)
        return torch.nn.functional.linear(y, v)


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hand") / "hand.pt2"
    program = torch.export.export(Quantized().eval(), (torch.rand(2, 3, 7, 9),))
    torch.export.save(program, path, extra_files={"author.txt": "someone"})
    return path


@pytest.fixture(scope="module")
def resnet8(random_weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pt2e")
    write_safetensors(random_weights, folder / "float.safetensors")
    paths = {"onnx": folder / "float.onnx"}
    paths["onnx"].write_bytes(build_onnx(random_weights).SerializeToString(deterministic=True))
    paths["int8"] = folder / "int8.pt2"
    config = PtqConfig(framework="torch", calibration_images=4, activations="int8")
    quantize_torch(folder / "float.safetensors", paths["int8"], config)
    return paths


def test_parameters_are_those_of_the_program(by_hand: Path) -> None:
    network = read_network(by_hand)
    module = Quantized()
    assert network.format == "pt2e" and network.batch is None
    assert network.metadata["author.txt"] == "someone"
    x = network.tensor("x").params
    assert (x.dtype, x.zero_point, x.is_per_tensor) == ("uint8", 7, True)
    assert x.scale == np.float32(0.1 + 1e-9)
    weight = network.tensor("conv2d.weight")
    assert weight.params.axis == 0 and weight.scale_name == "scales"
    np.testing.assert_array_equal(weight.params.scale, module.scales.numpy())
    out = network.layers[0].outputs[0].quant
    assert out is not None and out.scale_name == "step"
    assert out.params.scale == np.float32(0.0123) and out.params.zero_point == 5


def test_integers_are_those_that_torch_computes(by_hand: Path) -> None:
    network, module = read_network(by_hand), Quantized()
    expected = Q.quantize_per_channel(
        module.conv.weight.detach(), module.scales, module.zeros, 0, -127, 127, torch.int8
    )
    weight = network.layers[0].weight
    assert weight is not None and weight.shape == (6, 1, 3, 3)
    np.testing.assert_array_equal(weight.integers(), expected.numpy())
    head = network.layers[-1].weight
    assert head is not None
    np.testing.assert_array_equal(head.integers(), module.weight8.numpy())
    np.testing.assert_array_equal(head.values(), module.weight8.numpy() * np.float32(0.02))
    with pytest.raises(ValueError, match="read-only"):
        head.integers()[0] = 1


def test_layers_have_attributes_and_costs_as_onnx_counts_them(by_hand: Path) -> None:
    conv, mean, head = read_network(by_hand).layers
    assert (conv.op_type, mean.op_type, head.op_type) == ("Conv", "ReduceMean", "Gemm")
    assert conv.attributes["group"] == 3
    assert conv.attributes["strides"] == (1, 2)
    assert conv.attributes["pads"] == (0, 1, 0, 1)
    assert conv.outputs[0].shape == (2, 6, 5, 5)
    assert conv.macs == 2 * 6 * 5 * 5 * 9
    assert head.macs == 2 * 10 * 6
    assert conv.weight_bytes == 6 * 9 + 6 * 4  # int8 weights and float biases
    assert conv.live_bytes == 2 * 3 * 7 * 9 + 2 * 6 * 5 * 5


def test_names_are_plain_strings(by_hand: Path) -> None:
    """A kind of string of one's own is no string for who sends it to a browser."""
    network = read_network(by_hand)
    operands = (*network.inputs, *network.outputs)
    names = [n for x in network.layers for o in (*x.inputs, *x.outputs) for n in (x.name, o.name)]
    names += [o.name for o in operands] + [o.source for o in operands if o.source]
    for tensor in network.tensors:
        names += [tensor.name, *tensor.integer_names, *tensor.dequantized_names]
        names += [n for n in (tensor.float_name, tensor.producer) if n]
    assert {type(name) for name in names} == {str}


def test_a_range_narrower_than_the_type_is_noted(by_hand: Path) -> None:
    notes = read_network(by_hand).notes
    assert any("Only -127..127 of int8 are used for" in note for note in notes)
    assert any("Only -64..63 of int8 are used for" in note for note in notes)


def test_names_are_those_of_the_float_onnx(resnet8: dict[str, Path]) -> None:
    names = {layer.name for layer in read_onnx(resnet8["onnx"]).layers}
    found = {layer.name for layer in read_network(resnet8["int8"]).layers}
    assert names <= found
    assert found - names == {"stack2.conv1.pad", "stack3.conv1.pad"}


def test_costs_are_those_of_the_float_onnx(resnet8: dict[str, Path]) -> None:
    float_layers = {layer.name: layer for layer in read_onnx(resnet8["onnx"]).layers}
    network = read_network(resnet8["int8"])
    assert network.batch == 1 and "batch of 1" in network.notes[0]
    for layer in network.layers:
        if layer.name in float_layers:
            same = float_layers[layer.name]
            assert layer.macs == same.macs
            assert layer.op_type == same.op_type
            assert layer.outputs[0].shape[1:] == same.outputs[0].shape[1:]


def test_residuals_and_sharing_are_found(resnet8: dict[str, Path]) -> None:
    network = read_network(resnet8["int8"])
    found = residuals(network)
    assert [r.layer for r in found] == ["stack1.add", "stack2.add", "stack3.add"]
    assert {branch.source for branch in found[1].branches} == {"stack2.conv2", "stack2.shortcut"}
    assert found[0].output == "stack1.relu2.out"
    assert network.tensor("flatten.out").shares_params_with == ("pool.out",)
    relu = network.tensor("stem.relu.out")
    assert relu.clips_negatives and not relu.folded_relu  # the ReLU is still there


def test_activations_are_those_that_run(resnet8: dict[str, Path]) -> None:
    """The program's own values, seen by torch's interpreter, lie on the grid of what was read."""
    network = read_network(resnet8["int8"])
    module = torch.export.load(resnet8["int8"]).module()
    seen: dict[str, torch.Tensor] = {}

    class Watch(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> object:
            seen[n.name] = super().run_node(n)
            return seen[n.name]

    Watch(module).run(torch.rand(2, 3, 32, 32) * 255)
    for tensor in network.tensors:
        if tensor.role == "activation":
            integers = seen[tensor.integer_names[0]]
            assert str(integers.dtype) == f"torch.{tensor.params.dtype}"
            assert tensor.shape is not None and tensor.shape[1:] == tuple(integers.shape[1:])
            steps = (integers.double() - int(tensor.params.zero_point)) * float(tensor.params.scale)
            for name in tensor.dequantized_names:
                torch.testing.assert_close(seen[name].double(), steps, rtol=1e-6, atol=1e-6)


def test_provenance_is_kept(resnet8: dict[str, Path]) -> None:
    network = read_network(resnet8["int8"])
    provenance = json.loads(network.metadata["quantscope.provenance"])
    assert provenance["config"]["framework"] == "torch"
    assert network.producer == f"torch {torch.__version__}"
    text = json.dumps(network.to_dict(full=True), allow_nan=False)
    assert '"format": "pt2e"' in text


def test_a_float_program_says_that_it_is_float(tmp_path: Path) -> None:
    network = read_network(save_small(tmp_path / "float.pt2"))
    assert network.format == "float" and not network.is_quantized and network.tensors == ()
    assert [layer.name for layer in network.layers] == [
        "conv",
        "relu",
        "side",
        "add",
        "mean",
        "head",
    ]
    assert network.edges[-1].source == "mean"
    assert network.layer("add").inputs[0].source == "relu"
    assert network.layer("conv").weight_bytes == (5 * 3 * 9 + 5) * 4


def test_reading_loads_no_torch(by_hand: Path) -> None:
    code = (
        "import sys; from quantscope.model import read_network; "
        f"read_network({str(by_hand)!r}).layers[0].weight.integers(); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_dynamic_quantization_is_shown_as_layers(tmp_path: Path) -> None:
    class Dynamic(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale, zero = Q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
            q = Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
            return Q.dequantize_per_tensor.tensor(q, scale, zero, -128, 127, torch.int8)

    path = tmp_path / "dynamic.pt2"
    torch.export.save(torch.export.export(Dynamic(), (torch.rand(2, 3),)), path)
    network = read_network(path)
    assert not network.is_quantized
    assert any("choose their scales when the program runs" in note for note in network.notes)


@pytest.mark.parametrize("scale", [0.0, -1.0, "NaN", "Infinity"])
def test_an_impossible_scale_is_said(scale: object, by_hand: Path, tmp_path: Path) -> None:
    def changed(value: dict) -> None:
        for node in value["graph_module"]["graph"]["nodes"]:
            for given in node["inputs"]:
                if given["name"] == "scale" and "as_float" in given["arg"]:
                    given["arg"] = {"as_float": scale}

    path = rewritten(by_hand, tmp_path / "scale.pt2", {PROGRAM: json_change(changed)})
    with pytest.raises(BadModelError, match=r"scale\.pt2, quantize_per_tensor: Scale .* is not"):
        read_network(path)


def test_weights_alone_are_no_network(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"x")
    with pytest.raises(BadModelError, match=r"w\.safetensors holds weights alone, no layers"):
        read_network(path)


def test_decomposed_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "core.pt2"
    with warnings.catch_warnings():  # torch's own, of a class that it still copies
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = torch.export.export(small(), (torch.zeros(2, 3, 7, 9),)).run_decompositions()
    torch.export.save(program, path)
    network = read_network(path)
    assert [layer.op_type for layer in network.layers if layer.macs] == ["Conv", "Conv", "Gemm"]
    assert network.layer("conv").attributes["pads"] == (1, 1, 1, 1)


JUNK = (None, 0, -1, 2**70, 1.5, "", "x", "é", [], {}, True, "s77", {"as_int": 3}, "NaN", [1, 2])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in inner:
        if isinstance(child, dict | list):
            yield from places(child, (*path, key))
        else:
            yield (*path, key)


def damage(value: Any, rng: random.Random) -> None:
    for path in rng.sample(list(places(value)), rng.choice([1, 1, 2, 4])):
        holder = value
        try:
            for key in path[:-1]:
                holder = holder[key]
            if rng.random() < 0.2:
                del holder[path[-1]]
            else:
                holder[path[-1]] = rng.choice(JUNK)
        except (KeyError, IndexError, TypeError):
            continue


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_program_is_read_or_refused_in_one_line(
    seed: int, by_hand: Path, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    refusals: list[str] = []
    for _ in range(100):
        member = rng.choice([PROGRAM, PROGRAM, WEIGHTS])
        change = json_change(lambda value: damage(value, rng))
        path = rewritten(by_hand, tmp_path / "damaged.pt2", {member: change})
        try:
            network = read_network(path)
            json.dumps(network.to_dict(full=True), allow_nan=False)
            for tensor in network.tensors:
                if tensor.has_data:
                    tensor.integers()
        except QuantscopeError as error:
            refusals.append(str(error))
    assert refusals and not any("\n" in text for text in refusals)
