"""PT2E programs: where the quantizers stand, what the file holds, how it agrees with its ONNX."""

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from quantscope.data import ImageSet, load_sample
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError
from quantscope.quantize import (
    LayerOverride,
    PtqConfig,
    Quantized,
    program_agreement,
    quantize_onnx,
    quantize_torch,
)
from quantscope.quantize.pt2e import quiet_torch
from quantscope.quantize.result import PROVENANCE_KEY
from quantscope.report.quantize_text import agreement_text
from quantscope.zoo import Weights, write_safetensors

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")

FEW = 64
INT8 = {"activations": "int8", "observer": "minmax"}


def config(**options: Any) -> PtqConfig:
    return PtqConfig(**{"framework": "torch", "calibration_images": FEW, **options})


def program(path: Path, extra: dict[str, str] | None = None) -> Any:
    with quiet_torch():
        return torch.export.load(path, extra_files=extra)


@pytest.fixture(scope="module")
def weights_file(random_weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "random.safetensors"
    write_safetensors(random_weights, path)
    return path


@pytest.fixture(scope="module")
def int8_program(weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    folder = tmp_path_factory.mktemp("int8")
    return quantize_torch(
        weights_file, folder / "int8.pt2", config(**INT8), onnx_output=folder / "int8.onnx"
    )


@pytest.fixture(scope="module")
def x86_program(weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    folder = tmp_path_factory.mktemp("x86")
    return quantize_torch(
        weights_file, folder / "x86.pt2", config(), onnx_output=folder / "x86.onnx"
    )


def onnx_constants(path: Path | None) -> dict[str, NDArray[Any]]:
    assert path
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_reloaded_program_takes_any_batch(int8_program: Quantized, batch: int) -> None:
    module = program(int8_program.path).module()
    images = torch.from_numpy(load_sample().images[:batch].astype(np.float32))
    with torch.no_grad():
        logits = module(images)
        alone = module(images[:1])
    assert logits.shape == (batch, 10)
    step = onnx_constants(int8_program.onnx_path)["head.out.scale"]
    assert (logits[:1] - alone).abs().max() <= step * 1.01


def test_file_holds_the_integers_and_nothing_of_the_machine(int8_program: Quantized) -> None:
    assert int8_program.size_bytes < 300_000
    with zipfile.ZipFile(int8_program.path) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {"archive"}
        samples = [i for i in archive.infolist() if "/sample_inputs/" in i.filename]
        assert sum(info.file_size for info in samples) == 0
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert b"torch_resnet8.py" not in content
    state = program(int8_program.path).state_dict
    assert not [name for name in state if name.endswith(".weight")]


def test_file_carries_what_it_follows_from(int8_program: Quantized) -> None:
    extra = {PROVENANCE_KEY: ""}
    program(int8_program.path, extra)
    text = extra[PROVENANCE_KEY]
    found = json.loads(text)
    assert found == int8_program.provenance
    assert PtqConfig.from_dict(found["config"]) == config(**INT8)
    assert {"torch", "torchao", "onnx"} <= found["versions"].keys()
    assert int8_program.onnx_path
    model = onnx.load(int8_program.onnx_path)
    assert {e.key: e.value for e in model.metadata_props}[PROVENANCE_KEY] == text


def test_same_inputs_write_the_same_program(
    int8_program: Quantized, weights_file: Path, tmp_path: Path
) -> None:
    again = quantize_torch(weights_file, tmp_path / "again.pt2", config(**INT8))
    assert again.digest == int8_program.digest


def test_quantizers_stand_where_integer_hardware_expects_them(int8_program: Quantized) -> None:
    graph = onnx.load(int8_program.onnx_path).graph
    quantized = [n.input[0] for n in graph.node if n.op_type == "QuantizeLinear"]
    stacks = [
        f"stack{n}.{part}.out"
        for n in (1, 2, 3)
        for part in ("relu1", "conv2", "relu2", *(("conv1.pad", "shortcut") if n > 1 else ()))
    ]
    assert sorted(quantized) == sorted(
        ["input", "stem.relu.out", *stacks, "pool.out", "flatten.out", "head.out"]
    )
    readers = {n.name: list(n.input) for n in graph.node}
    assert readers["stack1.add"] == ["stem.relu.out.dequantized", "stack1.conv2.out.dequantized"]
    assert readers["stack2.conv1"][0] == "stack2.conv1.pad.out.dequantized"
    pad = readers["stack2.conv1.pad.out.quantize"]
    assert pad[1:] == ["stack1.relu2.out.scale", "stack1.relu2.out.zero_point"]


def test_weights_and_scales_are_those_of_onnxruntime(
    int8_program: Quantized, random_resnet8: Path, tmp_path: Path
) -> None:
    quantize_onnx(random_resnet8, tmp_path / "ort.onnx", PtqConfig(calibration_images=FEW))
    ours, theirs = onnx_constants(int8_program.onnx_path), onnx_constants(tmp_path / "ort.onnx")
    layers = [n.removesuffix(".weight.quantized") for n in ours if n.endswith("weight.quantized")]
    assert len(layers) == 10
    for layer in layers:
        expected = theirs[f"{layer}.weight_quantized"]
        difference = ours[f"{layer}.weight.quantized"].astype(int) - expected
        assert np.abs(difference).max() <= 1  # a quotient in the middle may round either way
        assert np.count_nonzero(difference) <= 1e-3 * difference.size
    for tensor in ("input", "stem.relu.out", "stack1.conv2.out", "stack3.relu2.out", "pool.out"):
        assert ours[f"{tensor}.scale"] == pytest.approx(theirs[f"{tensor}_scale"], rel=1e-5)
        assert ours[f"{tensor}.zero_point"] == theirs[f"{tensor}_zero_point"]


def test_x86_defaults_quantize_every_convolution(x86_program: Quantized) -> None:
    assert x86_program.config.torch_quantizer == "x86"
    counts = Counter(str(n.target) for n in program(x86_program.path).graph.nodes)
    assert counts["quantized_decomposed.dequantize_per_channel.default"] == 10


@pytest.mark.parametrize("which", ["int8_program", "x86_program"])
def test_program_and_its_onnx_agree(which: str, request: pytest.FixtureRequest) -> None:
    made: Quantized = request.getfixturevalue(which)
    assert made.onnx_path
    found = program_agreement(made.path, made.onnx_path, load_sample().take(100))
    assert found.images == 100
    assert found.identical_images <= found.close_images <= found.images
    assert found.close_images >= 50
    assert found.class_agreement >= 0.98
    assert agreement_text(found).startswith(
        f"The two agree in the class of {found.same_class} of 100 test images and in all logits of "
        f"{found.identical_images} (up to float32 rounding: {found.close_images}); the largest "
    )
    assert json.loads(json.dumps(found.to_dict()))["same_class"] == found.same_class


def test_only_checked_programs_are_compared(int8_program: Quantized, tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, tmp_path / "weights.pt2")
    with pytest.raises(BadModelError, match="holds weights alone"):
        program_agreement(tmp_path / "weights.pt2", int8_program.path, load_sample().take(1))


SCHEMES = [
    ({"weights": "uint8", "observer": "moving-average"}, "uint8", "uint8"),
    ({"activations": "int8", "symmetric_activations": True, "per_channel": False}, "int8", "int8"),
    ({"weights": "uint8", "per_channel": False, "reduce_range": True}, "uint8", "uint8"),
    ({"per_channel": False, "weight_observer": "histogram"}, "uint8", "int8"),
    ({"per_channel": False, "observer": "minmax"}, "uint8", "int8"),
]
SCHEMES = [
    pytest.param(*scheme, marks=[pytest.mark.slow] if place > 1 else [])
    for place, scheme in enumerate(SCHEMES)
]


@pytest.mark.parametrize(("options", "activations", "weights"), SCHEMES, ids=str)
def test_schemes_that_x86_lacks_are_made(
    options: dict[str, Any], activations: str, weights: str, weights_file: Path, tmp_path: Path
) -> None:
    made = quantize_torch(weights_file, tmp_path / "q.pt2", config(**options))
    assert made.config.torch_quantizer == "quantscope"
    graph = program(made.path).graph
    quantizers = [n for n in graph.nodes if "quantize_per_tensor" in str(n.target)]
    names = {str(n.args[5]) for n in quantizers if ".quantize_per" in str(n.target)}
    assert names == {f"torch.{activations}"}
    if made.config.symmetric_activations:
        assert {n.args[2] for n in quantizers} == {0}
    state = program(made.path).state_dict | program(made.path).constants
    frozen = [value for name, value in state.items() if "_frozen_param" in name]
    assert {str(value.dtype) for value in frozen} == {f"torch.{weights}"}
    if made.config.reduce_range:
        assert max(int(value.max()) for value in frozen) <= 127


def test_overrides_change_their_layers_alone(weights_file: Path, tmp_path: Path) -> None:
    overrides = (
        LayerOverride("stem", left_float=True),
        LayerOverride("stack1.add", left_float=True),
        LayerOverride("stack2.conv1", activations="uint8", per_channel=False),
        LayerOverride("head", weights="uint8"),
    )
    made = quantize_torch(
        weights_file,
        tmp_path / "q.pt2",
        config(**INT8, overrides=overrides),
        onnx_output=tmp_path / "q.onnx",
    )
    graph = onnx.load(tmp_path / "q.onnx").graph
    found = onnx_constants(made.onnx_path)
    assert found["stem.weight"].dtype == np.float32
    assert "input.scale" not in found
    assert next(n for n in graph.node if n.name == "stem").input[0] == "input"
    assert found["stack2.relu1.out.zero_point"].dtype == np.uint8
    assert found["stack3.relu1.out.zero_point"].dtype == np.int8
    assert found["stack2.conv1.weight.scale"].shape == ()
    assert found["stack2.conv2.weight.scale"].shape == (32,)
    assert found["head.weight.quantized"].dtype == np.uint8


def test_unknown_layer_offers_the_closest(weights_file: Path, tmp_path: Path) -> None:
    left = LayerOverride("stack1.ad", left_float=True)
    with pytest.raises(BadConfigError) as raised:
        quantize_torch(weights_file, tmp_path / "q.pt2", config(overrides=(left,)))
    assert str(raised.value).startswith(f"No layer 'stack1.ad' in {weights_file}; closest: stack1.")


def test_quantizer_that_saw_one_value_is_named(weights_file: Path, tmp_path: Path) -> None:
    rows = np.arange(8)
    black = ImageSet.of_images(
        "black.npz", np.zeros((8, 3, 32, 32)), rows % 2, rows, ("a", "b"), "as-is"
    )
    made = quantize_torch(
        weights_file, tmp_path / "q.pt2", config(calibration_images=8), calibration=black
    )
    assert made.warnings[0] == (
        "The quantizer of 'x' saw only the value 0 in 8 calibration rows; "
        "its scale says nothing about other rows"
    )


def test_bad_inputs_are_one_line_each(weights_file: Path, tmp_path: Path) -> None:
    rows = np.arange(FEW)
    grey = ImageSet.of_images(
        "grey.npz", np.zeros((FEW, 1, 28, 28)), rows % 2, rows, ("a", "b"), "as-is"
    )
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(weights_file.read_bytes()[:1000])
    output = tmp_path / "q.pt2"

    def refusal(path: Path, target: Path, settings: PtqConfig, **rest: Any) -> str:
        with pytest.raises(QuantscopeError) as raised:
            quantize_torch(path, target, settings, **rest)
        return str(raised.value)

    assert refusal(weights_file, output, config(), calibration=grey) == (
        "The calibration images of grey.npz have the shape [1, 28, 28], but random.safetensors "
        "takes [3, 32, 32]; save them in the model's own shape"
    )
    assert "cut.safetensors is not a readable safetensors file" in refusal(cut, output, config())
    assert refusal(weights_file, weights_file, config()) == (
        f"{weights_file} is a file that is read; give another name to write to"
    )
    assert refusal(weights_file, output, config(), onnx_output=output) == (
        f"{output} would be written twice; give each output its own name"
    )
    assert refusal(weights_file, output, PtqConfig()) == (
        "random.safetensors is quantized with torch, not onnxruntime"
    )
    assert not output.exists()


def in_fresh_process(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": "src"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


QUANTIZE = (
    "from pathlib import Path; from quantscope.quantize import PtqConfig, quantize_torch; "
    "quantize_torch(Path(sys.argv[1]), Path(sys.argv[2]), "
    "PtqConfig(framework='torch', calibration_images=2))"
)


def test_nothing_of_the_frameworks_notes_is_shown(weights_file: Path, tmp_path: Path) -> None:
    done = in_fresh_process(f"import sys; {QUANTIZE}", weights_file, tmp_path / "q.pt2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_missing_extra_says_how_to_install_it(weights_file: Path, tmp_path: Path) -> None:
    code = f"import sys; sys.modules['torch'] = None; {QUANTIZE}"
    done = in_fresh_process(code, weights_file, tmp_path / "q.pt2")
    assert done.stderr.splitlines()[-1].endswith(
        "Quantizing with PyTorch needs torch, which is not installed; "
        "install it with: pip install 'quantscope[torch]'"
    )
