"""ResNet8 in its three forms."""

import hashlib
import json
from pathlib import Path

import h5py
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from quantscope.data import load_sample
from quantscope.errors import BadModelError
from quantscope.model import bundled_models, find_model, find_original, open_model, recorded_digest
from quantscope.model.bundled import float_model_of
from quantscope.model.float_original import PROVENANCE_KEY
from quantscope.run import evaluate
from quantscope.zoo import (
    CONVOLUTIONS,
    Weights,
    build_onnx,
    build_torch,
    read_keras,
    read_safetensors,
    write_onnx,
    write_safetensors,
)


@pytest.fixture(scope="module")
def keras_file(shared_folder: Path) -> Path:
    return shared_folder / "mlperf-tiny" / "pretrainedResnet.h5"


def test_names_read_as_a_person_would_say_them() -> None:
    assert [conv.name for conv in CONVOLUTIONS] == [
        "stem",
        *("stack1.conv1", "stack1.conv2"),
        *("stack2.conv1", "stack2.conv2", "stack2.shortcut"),
        *("stack3.conv1", "stack3.conv2", "stack3.shortcut"),
    ]


def test_onnx_has_the_promised_interface(random_weights: Weights) -> None:
    model = build_onnx(random_weights)
    assert model.opset_import[0].version >= 20
    session = ort.InferenceSession(model.SerializeToString())
    (images,), (logits,) = session.get_inputs(), session.get_outputs()
    assert (images.name, images.shape, images.type) == ("input", ["N", 3, 32, 32], "tensor(float)")
    assert (logits.name, logits.shape) == ("logits", ["N", 10])


def test_onnx_gives_every_node_its_own_name(random_weights: Weights) -> None:
    names = [node.name for node in build_onnx(random_weights).graph.node]
    assert len(set(names)) == len(names)
    assert {"stem", "stack2.shortcut", "stack3.add", "head"} <= set(names)


def test_parameters_are_those_of_the_reference(random_weights: Weights) -> None:
    # The reference counts four numbers of batch norm a channel, which folding takes away.
    channels = 3 * 16 + 2 * 32 + 2 * 64
    assert sum(w.size for w in random_weights.values()) == 78_666 - 4 * channels


def test_torch_and_onnx_compute_the_same(random_weights: Weights) -> None:
    torch = pytest.importorskip("torch")
    images = np.random.default_rng(0).uniform(0, 255, (5, 3, 32, 32)).astype(np.float32)
    session = ort.InferenceSession(build_onnx(random_weights).SerializeToString())
    with torch.inference_mode():
        ours = build_torch(random_weights)(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(ours, session.run(None, {"input": images})[0], rtol=1e-4, atol=1e-4)


def test_folding_batch_norm_changes_nothing() -> None:
    torch = pytest.importorskip("torch")
    from quantscope.zoo.torch_resnet8 import ResNet8, fold_batch_norm

    torch.manual_seed(0)
    model = ResNet8(batch_norm=True)
    images = torch.rand(16, 3, 32, 32)
    model(images)  # moves the running statistics away from 0 and 1
    model.eval()
    with torch.inference_mode():
        torch.testing.assert_close(fold_batch_norm(model)(images), model(images))


def test_safetensors_come_back_as_they_were(random_weights: Weights, tmp_path: Path) -> None:
    write_safetensors(random_weights, tmp_path / "w.safetensors")
    again = read_safetensors(tmp_path / "w.safetensors")
    assert all(np.array_equal(again[name], w) for name, w in random_weights.items())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "w.safetensors is not a readable safetensors file"),
        (b"not safetensors at all", "w.safetensors is not a readable safetensors file"),
    ],
)
def test_damaged_safetensors_are_said_so(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadModelError, match=message):
        read_safetensors(path)


def test_foreign_safetensors_name_the_tensor(random_weights: Weights, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_safetensors({**random_weights, "head.bias": np.zeros(7, np.float32)}, path)
    with pytest.raises(BadModelError, match=r"'head.bias' has shape \[7\], expected \[10\]"):
        read_safetensors(path)
    write_safetensors({k: v for k, v in random_weights.items() if k != "stem.bias"}, path)
    with pytest.raises(BadModelError, match=r"it has no tensor 'stem\.bias'"):
        read_safetensors(path)


def test_bundled_onnx_and_safetensors_hold_the_same_weights() -> None:
    files = bundled_models()
    weights = read_safetensors(files["resnet8-torch"])
    model = onnx.load(files["resnet8"])
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert stored.keys() == weights.keys()
    assert all(np.array_equal(stored[name], w) for name, w in weights.items())


def test_a_file_of_a_bundled_models_name_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model("resnet8") == bundled_models()["resnet8"]
    assert find_model("resnet8-int8.onnx") == bundled_models()["resnet8-int8"]
    Path("resnet8").write_text("mine")
    assert find_model("resnet8") == Path("resnet8")


def test_a_model_that_is_not_there_names_the_bundled_ones() -> None:
    with pytest.raises(BadModelError) as refused:
        find_model("resnet8-int9")
    assert str(refused.value) == (
        "There is no file resnet8-int9; give a model's path, or a bundled one: "
        "resnet8, resnet8-int8, resnet8-uint8, resnet8-torch"
    )


def test_bundled_onnx_and_torch_agree_on_every_sample_image() -> None:
    pytest.importorskip("torch")
    sample = load_sample()
    by_onnx, by_torch = evaluate("resnet8", sample), evaluate("resnet8-torch", sample)
    assert np.array_equal(by_onnx.predictions, by_torch.predictions)
    assert by_onnx.loss == pytest.approx(by_torch.loss, abs=1e-4)


def test_keras_import_keeps_the_reference_model(keras_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "reference.onnx"
    write_onnx(read_keras(keras_file), path)
    result = evaluate(path, load_sample())
    assert abs(result.accuracy - 0.8719) < 4 * 0.0106  # four sigmas of 1,000 images


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("drop dense", "it has 0 layers named dense, expected 1"),
        ("drop conv2d_8", "it has 8 layers named conv2d, expected 9"),
        ("reshape conv2d_3", r"conv2d_3/kernel should have shape \[3, 3, 16, 32\], found \[1\]"),
        ("drop gamma", r"batch_normalization/gamma should have shape \[16\], it is missing"),
        ("add lstm", "it has other layers with weights: lstm"),
    ],
)
def test_another_keras_network_is_refused_by_name(
    change: str, message: str, keras_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "other.h5"
    path.write_bytes(keras_file.read_bytes())
    with h5py.File(path, "r+") as file:
        group = file["model_weights"]
        what, name = change.split(" ")
        if name == "gamma":
            del group["batch_normalization/batch_normalization/gamma:0"]
        elif what == "drop":
            del group[name]
        elif what == "reshape":
            del group[f"{name}/{name}/kernel:0"]
            group[f"{name}/{name}/kernel:0"] = np.zeros(1, np.float32)
        else:
            group["lstm/lstm/kernel:0"] = np.zeros(3, np.float32)
    with pytest.raises(BadModelError, match=f"not the MLPerf Tiny ResNet8: {message}"):
        read_keras(path)


def test_keras_import_refuses_what_is_not_hdf5(tmp_path: Path) -> None:
    with pytest.raises(BadModelError, match=r"There is no file .*gone\.h5"):
        read_keras(tmp_path / "gone.h5")
    (tmp_path / "text.h5").write_text("hello")
    with pytest.raises(BadModelError, match=r"text\.h5 is not a readable HDF5 file"):
        read_keras(tmp_path / "text.h5")


def test_a_bundled_quantized_model_knows_its_float_model(tmp_path: Path) -> None:
    files = bundled_models()
    assert float_model_of("resnet8-int8") == files["resnet8"]
    assert float_model_of(files["resnet8-uint8"]) == files["resnet8"]
    assert float_model_of("resnet8") is None
    assert float_model_of(tmp_path / "mine.onnx") is None


def test_onnx_made_from_the_bundled_weights_knows_the_same_network_as_onnx(tmp_path: Path) -> None:
    files = bundled_models()
    weights, original = (
        hashlib.sha256(files[name].read_bytes()).hexdigest()
        for name in ("resnet8-torch", "resnet8")
    )
    proto = onnx.load(files["resnet8-int8"])
    for entry in proto.metadata_props:
        if entry.key == PROVENANCE_KEY:
            entry.value = json.dumps({"float_model_digest": weights})
    onnx.save(proto, tmp_path / "mine.onnx")
    model = open_model(tmp_path / "mine.onnx")
    found = find_original(model)
    assert found is not None and found.path == files["resnet8"]
    assert recorded_digest(model) == original
