"""No command writes over a file that is there already, unless it is told to."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantscope.cli import app
from quantscope.errors import BadConfigError
from quantscope.zoo import bundled_models

FEW = ["--images", "2"]
COMMANDS = {
    "graph": ["graph", "resnet8-int8", "-o", "OUT.svg"],
    "capture": ["capture", "resnet8-int8", "--layer", "stem", "-o", "OUT.npz"],
    "compare": ["compare", "resnet8-int8", *FEW, "--html", "OUT.html"],
    "sensitivity": ["sensitivity", "resnet8-int8", *FEW, "--figure", "OUT.svg"],
    "quantize": ["quantize", "resnet8", "--calibration-images", "2", "-o", "OUT.onnx"],
    "whatif": ["whatif", "resnet8-int8", "--off", "stem", *FEW, "-o", "OUT.onnx"],
    "recipe": ["whatif", "resnet8-int8", "--off", "stem", *FEW, "--save-recipe", "OUT.json"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_file_that_is_there_stays(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / command[-1]
    path.write_text("a person's own")
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, BadConfigError), refused.output
    assert str(refused.exception) == (
        f"{command[-1]} is there already; give another name, or replace it with --force"
    )
    assert path.read_text() == "a person's own"
    told = CliRunner().invoke(app, [*command, "--force"])
    assert told.exit_code == 0, told.exception or told.output
    assert not path.read_bytes().startswith(b"a person's")


SOURCES = {
    "graph": ["graph", "IN", "-o", "IN"],
    "capture": ["capture", "IN", "-o", "IN"],
    "compare": ["compare", "IN", "--float", "resnet8", "--html", "IN"],
    "compare, float": ["compare", "resnet8-int8", "--float", "IN", "--html", "IN"],
    "sensitivity": ["sensitivity", "IN", "--float", "resnet8", "--figure", "IN"],
}


@pytest.mark.parametrize("command", SOURCES.values(), ids=SOURCES)
def test_what_a_command_reads_it_does_not_write_over(command: list[str], tmp_path: Path) -> None:
    source = tmp_path / {"--html": "in.html", "--figure": "in.svg"}.get(command[-2], "in.onnx")
    if command[0] == "graph":
        source = source.with_suffix(".svg")
    content = bundled_models()["resnet8-int8"].read_bytes()
    source.write_bytes(content)
    words = [str(source) if word == "IN" else word for word in command]
    refused = CliRunner().invoke(app, [*words, "--force"])
    assert isinstance(refused.exception, BadConfigError), refused.output
    assert str(refused.exception) == (
        f"{source} is read by this command; give another name to write to"
    )
    assert source.read_bytes() == content
