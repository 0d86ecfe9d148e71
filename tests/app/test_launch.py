"""What `quantscope play` says before anything is started."""

import socket
import subprocess
import sys
from pathlib import Path

import in_process
import pytest
from playing import SERVED, playing

import quantscope.app
from quantscope.app.launch import FIRST_PORT, check_port, launch, own_copy
from quantscope.app.launch import free_port as first_free
from quantscope.errors import BadConfigError, MissingExtraError
from serve_play import free_port


def refused(*arguments: str) -> str:
    """The one line that wrong input gets."""
    return in_process.refused("play", "--no-browser", *arguments)


def refused_by_a_process(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "quantscope", "play", "--no-browser", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_the_address_is_said_once(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with playing(log=output) as address:
        token = SERVED[address].token
    text = output.read_text(encoding="utf-8")
    assert text.startswith(f"quantscope is at {address}/?access_token={token}\n")
    assert text.count("http://") == 1


def test_wrong_model_is_one_line() -> None:
    line = refused_by_a_process("missing.onnx")
    assert "There is no file missing.onnx" in line
    assert "resnet8-int8" in line


def test_float_model_in_the_wrong_place_is_one_line() -> None:
    assert "give the float model that" in refused("resnet8-int8", "--float", "resnet8-uint8")
    assert "is a float model; give the quantized one first" in refused(
        "resnet8", "--float", "resnet8"
    )


def test_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"Port {port} is in use" in refused("--port", str(port))


def test_port_must_be_a_port() -> None:
    with pytest.raises(BadConfigError, match="from 1 to 65535, not 70000"):
        check_port("127.0.0.1", 70000)
    port = free_port()
    assert check_port("127.0.0.1", port) == port


def test_second_playground_takes_the_next_port() -> None:
    first = first_free("127.0.0.1")
    assert first >= FIRST_PORT
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert first_free("127.0.0.1") > first


def test_address_of_another_machine_is_one_line() -> None:
    assert "is no address of this machine" in refused("--host", "no.such.host.invalid")


def test_missing_marimo_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "marimo", None)
    with pytest.raises(MissingExtraError, match="pip install marimo"):
        launch(None, None, browser=False)


def test_edit_opens_a_copy_and_keeps_the_one_that_is_there(tmp_path: Path) -> None:
    original = Path(quantscope.app.__file__).parent / "playground.py"
    before = original.read_bytes()
    copy = own_copy(original, tmp_path)
    assert copy.parent == tmp_path
    assert "style.css" in copy.read_text(encoding="utf-8")
    copy.write_text("mine", encoding="utf-8")
    assert own_copy(original, tmp_path).read_text(encoding="utf-8") == "mine"
    assert original.read_bytes() == before
