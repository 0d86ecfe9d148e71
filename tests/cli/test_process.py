"""What a command says when something goes wrong that nobody thought of, and for whom."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import run

from quantscope.model import bundled_models

BROKEN = """
import quantscope.model as reader, {imports}
def broken(model):
    {what}
reader.read_network = broken
"""


def inspect_here(monkeypatch: pytest.MonkeyPatch, odd: Exception) -> tuple[int, list[str]]:
    """`quantscope inspect` in this process, with a part that fails so."""

    def broken(model: object) -> None:
        raise odd

    monkeypatch.setattr("quantscope.model.read_network", broken)
    done = run("inspect", "resnet8")
    return done.returncode, done.stderr.splitlines()


def inspect(tmp_path: Path, what: str, *words: str, imports: str = "os") -> tuple[int, list[str]]:
    """`quantscope inspect` with a part that does something odd."""
    (tmp_path / "sitecustomize.py").write_text(BROKEN.format(what=what, imports=imports))
    done = subprocess.run(
        [sys.executable, "-m", "quantscope", *words, "inspect", "resnet8"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *filter(None, sys.path)))},
    )
    return done.returncode, done.stderr.splitlines()


def test_the_unexpected_is_one_line_that_asks_for_a_report(tmp_path: Path) -> None:
    code, lines = inspect(tmp_path, "raise ZeroDivisionError('first\\nsecond')")
    assert code == 1
    assert lines == [
        "quantscope: This should not have happened (ZeroDivisionError: first); please report it "
        "with what this prints: quantscope --debug inspect resnet8"
    ]


def test_debug_shows_the_traceback_before_that_line(tmp_path: Path) -> None:
    code, lines = inspect(tmp_path, "raise ZeroDivisionError('first')", "--debug")
    assert code == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2] == "ZeroDivisionError: first"
    assert lines[-1] == (
        "quantscope: This should not have happened (ZeroDivisionError: first); please report it"
    )


def test_debug_shows_where_bad_input_was_found() -> None:
    done = run("--debug", "inspect", "nowhere.onnx")
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1].startswith("quantscope: There is no file nowhere.onnx")


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (MemoryError(), "There is not enough memory for this"),
        (PermissionError(13, "Permission denied", "a/b"), "Cannot use a/b: Permission den"),
        (OSError(36, "File name too long", b"a/b"), "Cannot use a/b: File name too long"),
    ],
)
def test_what_the_machine_refuses_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, odd: Exception, said: str
) -> None:
    code, lines = inspect_here(monkeypatch, odd)
    assert code == 2
    assert len(lines) == 1 and lines[0].startswith(f"quantscope: {said}")


def test_warnings_of_libraries_are_for_those_who_debug(tmp_path: Path) -> None:
    what = "numpy.float32(1) / numpy.float32(0); raise MemoryError"
    code, lines = inspect(tmp_path, what, imports="numpy")
    assert (code, len(lines)) == (2, 1)
    code, lines = inspect(tmp_path, what, "--debug", imports="numpy")
    assert any("RuntimeWarning: divide by zero" in line for line in lines)


def test_names_cannot_steer_the_terminal_or_make_more_lines() -> None:
    done = run("inspect", "a\nb\x1b[2J.onnx")
    assert done.returncode == 2
    assert done.stderr.startswith(r"quantscope: There is no file a\nb\x1b[2J.onnx; give")
    assert done.stderr.count("\n") == 1


def test_names_that_are_no_text_are_names_too(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.onnx"
    Path(os.fsdecode(path)).write_bytes(bundled_models()["resnet8-int8"].read_bytes())
    words = [sys.executable, "-m", "quantscope", "inspect", path]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for environment in (dict(os.environ), ascii_only):
        done = subprocess.run(words, capture_output=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(rb"\udcff.onnx")


def test_debug_may_stand_anywhere() -> None:
    done = run("inspect", "--debug", "nowhere.onnx")
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
