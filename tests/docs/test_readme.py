"""The README's code does what it says: a person copies it."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantscope.cli import app

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = "".join(re.findall(r"```\n(.*?)```", README, re.DOTALL))
COMMANDS = re.findall(r"^quantscope (\w[\w-]*)(.*?)(?:#.*)?$", SHELL, re.MULTILINE)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize(("command", "arguments"), COMMANDS, ids=lambda text: text.strip()[:40])
def test_its_commands_have_the_options_that_it_names(command: str, arguments: str) -> None:
    words = shlex.split(arguments)
    steps = [command, words[0]] if command == "data" else [command]
    shown = CliRunner().invoke(app, [*steps, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in shown.output, f"{command} has no {word}"
