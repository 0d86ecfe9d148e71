"""`quantscope inspect` as a person meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from quantscope.cli import inspect
from quantscope.errors import QuantscopeError

app = typer.Typer()
app.command()(inspect.command)


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
    assert result.stdout == ""
    return text


@pytest.fixture(scope="module")
def model(quantized: Callable[..., Path]) -> Path:
    return quantized()


def test_the_example_of_the_help_works(model: Path) -> None:
    assert "Example: quantscope inspect" in " ".join(shown("--help").split())
    assert shown(model, "--layer", "stack2.conv1").startswith("stack2.conv1\n")


def test_it_shows_head_layers_and_tensors_in_this_order(model: Path) -> None:
    text = shown(model)
    titles = ["sha256", "provenance", "Layers", "Quantized activations", "Quantized weights"]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert text.startswith(f"{model.name}\nformat")


def test_a_bundled_model_is_known_by_name() -> None:
    assert "this is a float model" in shown("resnet8")


def test_a_layer_shows_channels_integers_and_values(model: Path) -> None:
    text = shown(model, "--layer", "stack2.conv1")
    assert "stack2.conv1.weight by channel" in text
    assert "stack2.conv1.weight[0, 0]: integers, then real values" in text
    assert "histogram" in text
    assert "folded ReLU" in text


def test_the_tree_has_a_line_for_each_layer(model: Path) -> None:
    text = shown(model, "--tree")
    assert "├── stack2  4 layers" in text
    assert "│   ├── shortcut  Conv" in text
    assert "Layers (" not in text


def test_residuals_can_be_seen_alone(model: Path) -> None:
    text = shown(model, "--residuals")
    assert "Where branches meet" in text
    assert "Layers (" not in text


def test_a_float_model_has_no_quantized_branches() -> None:
    assert "No Add, Sub or Concat of quantized branches" in shown("resnet8", "--residuals")


def test_raw_ends_with_the_node_counts(model: Path) -> None:
    assert shown(model, "--raw").splitlines()[-1].startswith("67 nodes: 36 DequantizeLinear")


@pytest.mark.parametrize(
    ("options", "kind"), [((), "network"), (("--layer", "head"), "layer"), (("--raw",), "nodes")]
)
def test_json_is_one_object_of_a_known_kind(model: Path, options: list[str], kind: str) -> None:
    result = json.loads(shown(model, *options, "--json"))
    assert (result["schema_version"], result["kind"]) == (1, kind)


def test_an_unknown_layer_names_the_closest(model: Path) -> None:
    text = refused(model, "--layer", "stack2.conv3")
    assert text.startswith(f"No layer 'stack2.conv3' in {model.name}; closest: stack2.conv")


def test_two_views_are_refused(model: Path) -> None:
    assert refused(model, "--tree", "--raw") == "--tree and --raw are two views; choose one of them"


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    for options in ((), ("--raw",), ("--json",)):
        assert "There is no file" in refused(tmp_path / "none.onnx", *options)


def test_a_truncated_model_is_one_line(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(model.read_bytes()[:5000])
    assert "cut short or damaged" in refused(path)
    assert "cut short or damaged" in refused(path, "--raw")


def test_raw_says_that_it_is_for_onnx() -> None:
    assert refused("resnet8-torch", "--raw") == (
        "--raw lists the nodes of an ONNX file; resnet8.safetensors is not one"
    )
