"""No command writes over a file that is there already, unless it is told to."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantscope.cli import app
from quantscope.errors import BadConfigError

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
