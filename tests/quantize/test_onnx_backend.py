"""Quantizing ONNX models: what is written, what it carries, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from quantscope.data import ImageSet, calibration_set
from quantscope.errors import BadConfigError, QuantscopeError, StoppedError
from quantscope.model import read_onnx
from quantscope.quantize import LayerOverride, PtqConfig, quantize_onnx
from quantscope.quantize.result import PROVENANCE_KEY

FEW = 16


def config(**options: Any) -> PtqConfig:
    return PtqConfig(**{"calibration_images": FEW, **options})


def outputs(path: Path, images: NDArray[Any], *, optimized: bool) -> NDArray[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def constants(path: Path) -> dict[str, NDArray[Any]]:
    graph = onnx.load(path).graph
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def as_set(images: NDArray[Any]) -> ImageSet:
    rows = np.arange(len(images))
    return ImageSet.of_images("given.npz", images, rows % 2, rows, ("a", "b"), "as-is")


def small_classifier(
    path: Path, *, shape: list[Any] | None, op: str = "Relu", input_type: int = TensorProto.FLOAT
) -> Path:
    """3 channels, a 1x1 convolution to 5, an odd number, and the mean of each."""
    weight = np.random.default_rng(3).normal(size=(5, 3, 1, 1)).astype(np.float32)
    first = "x"
    nodes = []
    if input_type != TensorProto.FLOAT:
        first = "f"
        nodes.append(helper.make_node("Cast", ["x"], ["f"], name="cast", to=TensorProto.FLOAT))
    nodes += [
        helper.make_node("Conv", [first, "w"], ["c"], name="conv"),
        helper.make_node(op, ["c"], ["r"], name="act"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["y"], name="flat"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", input_type, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


WORKING: list[dict[str, Any]] = [
    {"activations": activations, "weights": weights, **rest}
    for activations, weights, rest in [
        ("int8", "int8", {}),
        ("uint8", "int8", {"per_channel": False}),
        ("uint8", "uint8", {"symmetric_activations": True}),
        ("uint8", "uint8", {"format": "qoperator", "per_channel": False}),
        ("int8", "int8", {"format": "qoperator", "reduce_range": True}),
        ("int8", "int8", {"symmetric_activations": True, "reduce_range": True}),
        ("int16", "int8", {}),
        ("uint16", "uint8", {}),
    ]
]


@pytest.mark.parametrize("options", WORKING, ids=str)
def test_what_a_config_allows_runs_in_both_executions(
    options: dict[str, Any], random_resnet8: Path, tmp_path: Path
) -> None:
    output = tmp_path / "quantized.onnx"
    quantize_onnx(random_resnet8, output, config(**options))
    images = calibration_set(FEW).images.astype(np.float32)
    expected = outputs(random_resnet8, images, optimized=False)
    spread = expected.std()
    for optimized in (False, True):
        logits = outputs(output, images, optimized=optimized)
        assert np.abs(logits - expected).mean() < 0.5 * spread
    kinds = {str(value.dtype) for value in constants(output).values()}
    assert {options["activations"], options["weights"]} <= kinds


def test_same_inputs_write_the_same_bytes_in_any_process(
    random_resnet8: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; from quantscope.quantize import *; "
        f"quantize_onnx(Path(sys.argv[1]), Path(sys.argv[2]), PtqConfig(calibration_images={FEW}))"
    )
    for seed in "1", "2":  # sets of strings have another order in each
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": "src"}
        command = [sys.executable, "-c", code, str(random_resnet8), str(tmp_path / f"{seed}.onnx")]
        subprocess.run(command, check=True, env=environment)
    first, second = ((tmp_path / f"{seed}.onnx").read_bytes() for seed in "12")
    assert first == second


def test_number_of_threads_does_not_show_in_the_model(random_resnet8: Path, tmp_path: Path) -> None:
    made = [
        quantize_onnx(random_resnet8, tmp_path / "q.onnx", config(), threads=threads)
        for threads in (1, 2, 3)
    ]
    assert len({result.digest for result in made}) == 1


def test_model_carries_what_it_follows_from(random_resnet8: Path, tmp_path: Path) -> None:
    output = tmp_path / "quantized.onnx"
    result = quantize_onnx(random_resnet8, output, config(calibration_seed=4))
    model = onnx.load(output)
    (text,) = [entry.value for entry in model.metadata_props if entry.key == PROVENANCE_KEY]
    found = json.loads(text)
    assert found == result.provenance
    assert PtqConfig.from_dict(found["config"]) == config(calibration_seed=4)
    assert found["versions"]["onnxruntime"] == ort.__version__
    assert found["calibration"]["images"] == FEW
    assert found["calibration"]["set"] == "cifar10-train-sample, 16 images, seed 4"
    other = quantize_onnx(random_resnet8, output, config(calibration_seed=5)).provenance
    assert other["calibration"]["indices_digest"] != found["calibration"]["indices_digest"]
    assert other["float_model_digest"] == found["float_model_digest"]


def test_input_file_is_left_as_it_was(random_resnet8: Path, tmp_path: Path) -> None:
    before = random_resnet8.read_bytes()
    quantize_onnx(random_resnet8, tmp_path / "quantized.onnx", config())
    assert random_resnet8.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quantized.onnx"]


def test_stopping_leaves_nothing_behind(random_resnet8: Path, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done:
            raise StoppedError("stopped")

    with pytest.raises(StoppedError):
        quantize_onnx(random_resnet8, tmp_path / "quantized.onnx", config(), progress=stop)
    assert not list(tmp_path.iterdir())


def test_layer_left_float_keeps_its_float_weights(random_resnet8: Path, tmp_path: Path) -> None:
    output = tmp_path / "quantized.onnx"
    left = LayerOverride("stack1.conv1", left_float=True)
    quantize_onnx(random_resnet8, output, config(overrides=(left,)))
    found = constants(output)
    assert found["stack1.conv1.weight"].dtype == np.float32
    assert "stack1.conv2.weight" not in found


def test_override_changes_its_layer_alone(random_resnet8: Path, tmp_path: Path) -> None:
    output = tmp_path / "quantized.onnx"
    overrides = (
        LayerOverride("stack2.conv1", activations="uint8", per_channel=False),
        LayerOverride("stack3.conv2", weights="uint8"),
        LayerOverride("head", activations="int16", per_channel=True),
    )
    quantize_onnx(random_resnet8, output, config(overrides=overrides))
    found = constants(output)
    assert found["stack2.relu1.out_zero_point"].dtype == np.uint8
    assert found["stack3.relu1.out_zero_point"].dtype == np.int8
    assert found["stack2.conv1.weight_scale"].shape == ()
    assert found["stack3.conv1.weight_scale"].shape == (64,)
    assert found["stack3.conv2.weight_quantized"].dtype == np.uint8
    assert found["logits_zero_point"].dtype == np.int16


@pytest.mark.parametrize(
    ("override", "text"),
    [
        (
            LayerOverride("flatten", activations="uint8"),
            "What layer 'flatten' writes has no quantizer of its own; override the layer before it",
        ),
        (
            LayerOverride("stack1.add", weights="int8"),
            "Layer 'stack1.add' (Add) has no weights; its override can only say activations or "
            "left_float",
        ),
    ],
)
def test_override_that_means_nothing_is_refused(
    override: LayerOverride, text: str, random_resnet8: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadConfigError) as raised:
        quantize_onnx(random_resnet8, tmp_path / "q.onnx", config(overrides=(override,)))
    assert str(raised.value) == text


def test_unknown_layer_offers_the_closest(random_resnet8: Path, tmp_path: Path) -> None:
    left = LayerOverride("stack1.conv", left_float=True)
    with pytest.raises(BadConfigError) as raised:
        quantize_onnx(random_resnet8, tmp_path / "q.onnx", config(overrides=(left,)))
    assert str(raised.value) == (
        f"No layer 'stack1.conv' in {random_resnet8}; "
        "closest: stack1.conv2, stack1.conv1, stack3.conv2"
    )


def test_quantizer_that_saw_one_value_is_named(tmp_path: Path) -> None:
    model = small_classifier(tmp_path / "small.onnx", shape=["N", 3, 4, 6])
    images = as_set(np.zeros((8, 3, 4, 6), np.float32))
    result = quantize_onnx(
        model, tmp_path / "q.onnx", config(calibration_images=8), calibration=images
    )
    assert (
        "The quantizer of 'x' saw only the value 0 in 8 calibration rows; "
        "its scale says nothing about other rows"
    ) in result.warnings


def test_entropy_with_onnxruntimes_bins_says_that_it_is_minmax(
    random_resnet8: Path, tmp_path: Path
) -> None:
    result = quantize_onnx(random_resnet8, tmp_path / "q.onnx", config(calibration="entropy"))
    assert result.warnings == (
        "Entropy calibration with onnxruntime's own 128 bins has a single candidate, the whole "
        "range, so it is minmax; with --histogram-bins 2048 it searches",
    )
    quantize_onnx(random_resnet8, tmp_path / "minmax.onnx", config())
    same = constants(tmp_path / "minmax.onnx")
    assert all(
        (same[name] == value).all() for name, value in constants(tmp_path / "q.onnx").items()
    )


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
@pytest.mark.parametrize("shape", [["N", 3, 4, 6], [4, 3, 4, 6]])
def test_any_classifier_is_calibrated_with_images_of_its_shape(
    method: str, shape: list[Any], tmp_path: Path
) -> None:
    model = small_classifier(tmp_path / "small.onnx", shape=shape)
    images = np.random.default_rng(1).normal(size=(12, 3, 4, 6)).astype(np.float32)
    settings = config(calibration=method, calibration_images=8)
    result = quantize_onnx(model, tmp_path / "q.onnx", settings, calibration=as_set(images))
    assert result.provenance["calibration"]["images"] == 8
    expected = outputs(model, images[:4], optimized=False)
    assert np.abs(outputs(result.path, images[:4], optimized=False) - expected).max() < 0.05


def test_channels_last_model_takes_the_bundled_images(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2], name="transpose"),
        helper.make_node("Conv", ["t", "w"], ["c"], name="conv"),
        helper.make_node("GlobalAveragePool", ["c"], ["y"], name="pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "nhwc",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 32, 32, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5, 1, 1])],
        [numpy_helper.from_array(np.ones((5, 3, 1, 1), np.float32), "w")],
    )
    path = tmp_path / "nhwc.onnx"
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    quantize_onnx(path, tmp_path / "q.onnx", config())
    assert constants(tmp_path / "q.onnx")["t_scale"] == pytest.approx(1.0)


def refusal(model: Path, output: Path, settings: PtqConfig | None = None, **rest: Any) -> str:
    with pytest.raises(QuantscopeError) as raised:
        quantize_onnx(model, output, settings or config(), **rest)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_bad_inputs_are_one_line_each(random_resnet8: Path, tmp_path: Path) -> None:
    done, output = tmp_path / "done.onnx", tmp_path / "q.onnx"
    quantize_onnx(random_resnet8, done, config())
    assert refusal(done, output) == (
        f"{done} is quantized already (qdq); give the float model that it was made from"
    )
    assert refusal(random_resnet8, random_resnet8) == (
        f"{random_resnet8} is a file that is read; give another name to write to"
    )
    assert refusal(random_resnet8, tmp_path) == (
        f"{tmp_path} is a folder; give the name of a file to write"
    )
    assert refusal(tmp_path / "no.onnx", output) == (
        f"There is no file {tmp_path / 'no.onnx'}; give an .onnx file"
    )
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(random_resnet8.read_bytes()[:5000])
    assert "is cut short or damaged" in refusal(cut, output)
    text = tmp_path / "text.onnx"
    text.write_text("not a model")
    assert refusal(text, output) == f"{text} is not an ONNX model: it is text"
    assert refusal(random_resnet8, output, PtqConfig(framework="torch")) == (
        "An ONNX model is quantized with onnxruntime, not torch"
    )
    assert not output.exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_folder_that_is_not_writable_is_refused(random_resnet8: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "is not writable" in refusal(random_resnet8, tmp_path / "q.onnx")


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        (["N", 3, "H", "W"], "[N, 3, H, W]"),
        (["N", 3, None, 6], "[N, 3, ?, 6]"),
        (["N", 3, 4, 6], "[N, 3, 4, 6]"),
        (None, "(unknown)"),
    ],
)
def test_model_of_other_images_asks_for_them(
    shape: list[Any] | None, shown: str, tmp_path: Path
) -> None:
    model = small_classifier(tmp_path / "small.onnx", shape=shape)
    assert refusal(model, tmp_path / "q.onnx") == (
        f"small.onnx takes 'x' float32 {shown}, so CIFAR-10's images cannot calibrate it; give "
        f"rows of them with --calibration-data FILE.npz, or --calibration-data random"
    )


@pytest.mark.parametrize("shape", [["N", 3, "H", "W"], ["N", 3, None, 6], None])
def test_open_sizes_are_those_of_the_calibration_rows(
    shape: list[Any] | None, tmp_path: Path
) -> None:
    model = small_classifier(tmp_path / "small.onnx", shape=shape)
    images = as_set(np.random.default_rng(1).normal(size=(FEW, 3, 4, 6)).astype(np.float32))
    made = quantize_onnx(model, tmp_path / "q.onnx", config(), calibration=images)
    fixed = small_classifier(tmp_path / "fixed.onnx", shape=["N", 3, 4, 6])
    quantize_onnx(fixed, tmp_path / "f.onnx", config(), calibration=images)
    expected, found = constants(tmp_path / "f.onnx"), constants(made.path)
    assert found.keys() == expected.keys()
    assert all((found[name] == value).all() for name, value in expected.items())


def test_images_of_another_shape_are_refused_with_both_shapes(
    random_resnet8: Path, tmp_path: Path
) -> None:
    images = as_set(np.zeros((FEW, 1, 28, 28), np.float32))
    assert refusal(random_resnet8, tmp_path / "q.onnx", calibration=images) == (
        "given.npz holds images of shape [N,1,28,28], but random_resnet8.onnx takes [N,3,32,32]; "
        "save them in the model's own shape"
    )


def test_too_few_images_are_refused(random_resnet8: Path, tmp_path: Path) -> None:
    images = as_set(np.zeros((4, 3, 32, 32), np.float32))
    assert refusal(random_resnet8, tmp_path / "q.onnx", calibration=images) == (
        "16 calibration rows were asked for, but given.npz has 4; use --calibration-images 4"
    )
    model = small_classifier(tmp_path / "small.onnx", shape=[3, 3, 4, 6])
    images = as_set(np.zeros((FEW, 3, 4, 6), np.float32))
    assert refusal(model, tmp_path / "q.onnx", calibration=images) == (
        "small.onnx takes 3 rows at once, and 16 calibration rows do not divide by that; "
        "choose a multiple of 3"
    )


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = small_classifier(tmp_path / "small.onnx", shape=["N", 3, 4, 6], op="Log")
    images = as_set(np.zeros((FEW, 3, 4, 6), np.float32))
    assert refusal(model, tmp_path / "q.onnx", calibration=images) == (
        "Tensor 'r' has infinite or NaN values for a calibration row, so it has no range; "
        "check the float model and the rows"
    )


def test_model_of_integers_is_calibrated_with_integers(tmp_path: Path) -> None:
    model = small_classifier(
        tmp_path / "small.onnx", shape=["N", 3, 4, 6], input_type=TensorProto.UINT8
    )
    images = as_set(np.random.default_rng(1).integers(0, 256, (FEW, 3, 4, 6)).astype(np.uint8))
    made = quantize_onnx(model, tmp_path / "q.onnx", config(), calibration=images)
    expected = outputs(model, images.images, optimized=False)
    found = outputs(made.path, images.images, optimized=False)
    assert np.abs(found - expected).max() < 0.02 * np.ptp(expected)


def test_everything_left_float_is_refused(tmp_path: Path) -> None:
    model = small_classifier(tmp_path / "small.onnx", shape=["N", 3, 4, 6])
    images = as_set(np.ones((FEW, 3, 4, 6), np.float32))
    left = tuple(LayerOverride(name, left_float=True) for name in ("conv", "act", "pool", "flat"))
    settings = config(overrides=left)
    assert refusal(model, tmp_path / "q.onnx", settings, calibration=images) == (
        f"Nothing in {model} was quantized: it has no operator that onnxruntime quantizes, or all "
        "were left float"
    )


def test_a_model_with_external_data_is_quantized_as_one_without(
    random_resnet8: Path, tmp_path: Path
) -> None:
    config = PtqConfig(calibration_images=8)
    onnx.save(
        onnx.load(random_resnet8),
        tmp_path / "split.onnx",
        save_as_external_data=True,
        location="split.onnx.data",
        size_threshold=0,
    )
    outputs = [tmp_path / "whole8.onnx", tmp_path / "split8.onnx"]
    quantize_onnx(random_resnet8, outputs[0], config)
    quantize_onnx(tmp_path / "split.onnx", outputs[1], config)
    whole, split = (onnx.load(path).graph.SerializeToString(deterministic=True) for path in outputs)
    assert whole == split


@pytest.mark.parametrize("format", ["qdq", "qoperator"])
def test_layers_keep_the_module_paths_that_the_exporter_left(
    format: str, random_resnet8: Path, tmp_path: Path
) -> None:
    model = onnx.load(random_resnet8)
    paths = {}
    for number, node in enumerate(model.graph.node):
        paths[f"node_{number}"] = node.name
        scopes = str([*node.name.split("."), node.op_type.lower()])
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
        node.name = f"node_{number}"
    onnx.save(model, tmp_path / "float.onnx")
    config = PtqConfig(calibration_images=8, format=format)
    quantize_onnx(tmp_path / "float.onnx", tmp_path / "q.onnx", config)
    float_names = {layer.name for layer in read_onnx(tmp_path / "float.onnx").layers}
    names = {layer.name for layer in read_onnx(tmp_path / "q.onnx").layers}
    assert names <= float_names
    assert len(names) == 15
