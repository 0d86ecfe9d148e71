"""`quantscope capture` as a person meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from quantscope.arithmetic import dequantize
from quantscope.cli import capture as cli
from quantscope.data import load_sample
from quantscope.errors import QuantscopeError
from quantscope.run import capture
from quantscope.run.capture.file import save_capture

app = typer.Typer()
app.command()(cli.command)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def shown(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, QuantscopeError), result.output
    text = str(result.exception)
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def model(quantized: Callable[..., Path]) -> Path:
    return quantized()


def test_the_file_holds_what_the_library_captures(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.npz"
    shown(model, "--layer", "stem", "--layer", "stack1.add.out", "--image", "4", "--image", "1-2",
          "-o", out)  # fmt: skip
    sample = load_sample().select([4, 1, 2])
    expected = capture(model, sample, ["stem", "stack1.add.out"])
    with np.load(out) as found:
        np.testing.assert_array_equal(found["images"], sample.indices)
        for name, tensor in expected.tensors.items():
            assert tensor.params is not None
            np.testing.assert_array_equal(found[f"{name}/integers"], tensor.integers)
            np.testing.assert_array_equal(found[f"{name}/values"], tensor.values)
            np.testing.assert_array_equal(found[f"{name}/scale"], tensor.params.scale)
            np.testing.assert_array_equal(found[f"{name}/zero_point"], tensor.params.zero_point)
        np.testing.assert_array_equal(found["outputs/logits"], expected.outputs["logits"])
        about = json.loads(str(found["about"]))
    assert about["digest"] == expected.digest and about["execution"] == "reference"
    assert [t["name"] for t in about["tensors"]] == ["stem.out", "stack1.add.out"]
    assert "onnxruntime" in about["provenance"]


def test_the_table_says_what_was_captured(model: Path, tmp_path: Path) -> None:
    text = shown(model, "--layer", "stem", "--layer", "stem.weight", "-o", tmp_path / "c.npz")
    first, *_ = text.splitlines()
    assert first.endswith(
        f"reference execution, image 0 of cifar10-test-sample "
        f"(number {load_sample().indices[0]:,} of the whole set)"
    )
    row = next(line for line in text.splitlines() if line.startswith("stem.out "))
    assert "1×16×32×32" in row and "…" in row
    assert "16 scales" in next(line for line in text.splitlines() if line.startswith("stem.weight"))
    assert text.splitlines()[-1].startswith("Wrote ")


def test_without_layers_all_quantized_activations_are_kept(model: Path, tmp_path: Path) -> None:
    found = json.loads(shown(model, "-o", tmp_path / "c.npz", "--json"))
    assert len(found["tensors"]) == 16
    assert found["file"] == str(tmp_path / "c.npz")
    assert found["images"] == [int(load_sample().indices[0])]
    assert {"name", "layer", "dtype", "shape", "scale", "zero_point", "min", "max"} <= set(
        found["tensors"][0]
    )


def test_runtime_says_what_cannot_be_seen(model: Path, tmp_path: Path) -> None:
    text = shown(model, "--execution", "runtime", "--no-int8-kernels", "-o", tmp_path / "c.npz")
    if "not seen" in text:  # depends on the CPU's kernels
        assert "looking at it changes the kernels that run" in text
        hidden = text.split("not seen\n")[1].split(":")[0].strip()
        out = tmp_path / "hidden.npz"
        runtime = "--execution", "runtime", "--no-int8-kernels"
        said = refused(model, *runtime, "--layer", hidden, "-o", out)
        assert said.startswith("Nothing of what was asked for can be seen in runtime execution")
        assert not out.exists()


def test_float_models_need_layers(tmp_path: Path) -> None:
    out = tmp_path / "c.npz"
    assert refused("resnet8", "-o", out).startswith(
        "resnet8.onnx has no quantized activations; name the layers with --layer"
    )
    assert not out.exists()
    shown("resnet8", "--layer", "stem", "-o", out)
    with np.load(out) as found:
        assert "stem.out/values" in found and "stem.out/integers" not in found


@pytest.mark.parametrize("image", ["x", "5-3", "1-", "-1", ""])
def test_bad_images_get_one_line(image: str, model: Path, tmp_path: Path) -> None:
    text = refused(model, f"--image={image}", "-o", tmp_path / "c.npz")
    assert text == f"--image takes a number or a range, such as 3 or 10-19, not '{image}'"


def test_what_cannot_be_done_gets_one_line(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.npz"
    assert "has no image 5000" in refused(model, "--image", "5000", "-o", out)
    assert "beyond any data set" in refused(model, "--image", "0-99999999999", "-o", out)
    assert "There is no folder" in refused(model, "-o", tmp_path / "no" / "c.npz")
    assert "c.txt has another suffix" in refused(model, "-o", tmp_path / "c.txt")
    said = refused(model, "--layer", "stemm", "-o", out)
    assert "No layer or quantized tensor 'stemm'" in said
    assert not out.exists() and list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "c.npz"
    out.write_bytes(b"before")
    found = capture(model, load_sample().take(1), ["stem"])

    def full(*arguments: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(QuantscopeError, match="No space left on device"):
        save_capture(found, out)
    assert out.read_bytes() == b"before" and list(tmp_path.iterdir()) == [out]


def test_values_are_the_integers_dequantized(model: Path, tmp_path: Path) -> None:
    shown(model, "--layer", "pool", "--image", "0-4", "-o", tmp_path / "c.npz")
    params = capture(model, load_sample().take(1), ["pool"])["pool.out"].params
    assert params is not None
    with np.load(tmp_path / "c.npz") as found:
        integers, values = found["pool.out/integers"], found["pool.out/values"]
    np.testing.assert_array_equal(values, dequantize(integers, params))
    assert len(values) == 5
