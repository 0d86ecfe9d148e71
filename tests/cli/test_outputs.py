"""What commands write: nothing that is there already, unless told to, and never what they read."""

import inspect
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest
from in_process import refused, run
from typer.main import get_command
from typer.testing import CliRunner

import quantscope
from quantscope.cli import app
from quantscope.cli.outputs import Writes
from quantscope.errors import BadConfigError
from quantscope.files import TEMPORARY
from quantscope.report import graph
from quantscope.report.graph.drawing import Drawing

PACKAGE = Path(quantscope.__file__).parent
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
    stale = CliRunner().invoke(app, command)
    assert isinstance(stale.exception, BadConfigError), stale.output
    assert str(stale.exception) == (
        f"{command[-1]} is there already; give another name, or replace it with --force"
    )
    assert path.read_text() == "a person's own"
    told = CliRunner().invoke(app, [*command, "--force"])
    assert told.exit_code == 0, told.exception or told.output
    assert not path.read_bytes().startswith(b"a person's")


# Options that name no file of a person's. All others, of every command that writes, are tried.
NO_FILES = {
    *("layer", "image", "images", "batch", "metric", "note", "set_", "range_", "off", "on"),
    *("framework", "activations", "weights", "calibration", "observer", "weight_observer"),
    *("torch_quantizer", "format_", "exclude", "more", "mode", "execution"),
}
PARAMETERS = {name: found.params for name, found in get_command(app).commands.items()}
NEEDED = {"whatif": ["--off", "stem"]}


def writers() -> Iterator[tuple[str, str, Writes, str, str | None]]:
    """Each command and output, with each thing it reads: its name, and its option if it is one."""
    for registered in app.registered_commands:
        assert registered.callback and registered.name
        parameters = inspect.signature(registered.callback).parameters
        kinds = {name: get_args(p.annotation) for name, p in parameters.items()}
        outputs = {n: m for n, parts in kinds.items() for m in parts if isinstance(m, Writes)}
        for parameter in PARAMETERS[registered.name]:
            kind = kinds.get(parameter.name, (bool,))[0]  # of --help there is none
            is_file = kind in (str, Path, str | None, Path | None)
            if parameter.name in {*outputs, *NO_FILES} or not is_file:
                continue
            option = parameter.opts[0] if parameter.param_type_name == "option" else None
            for output, mark in outputs.items():
                yield registered.name, output, mark, parameter.name, option


CASES = list(writers())


def _linked_folder(path: Path) -> Path:
    link = path.parent.with_name("linked")
    link.symlink_to(path.parent, target_is_directory=True)
    return link


def _hard_link(path: Path) -> Path:
    link = path.with_name(f"other{path.suffix}")
    link.hardlink_to(path)
    return link


SPELLED: dict[str, Callable[[Path], Path]] = {
    "as it is": lambda path: path,
    "relative": lambda path: path.parent / ".." / path.parent.name / path.name,
    "a link to its folder": lambda path: _linked_folder(path) / path.name,
    "a hard link": _hard_link,
}


def test_every_command_that_writes_is_among_the_cases() -> None:
    """A new option that names a file is tried by itself; one that does not is listed above."""
    found = {(command, output) for command, output, *_ in CASES}
    assert found == {
        ("graph", "output"),
        ("bits", "figure"),
        ("bits", "output"),
        ("bits", "save_recipe"),
        ("capture", "output"),
        ("compare", "html"),
        ("calibration", "figure"),
        ("calibration", "html"),
        ("cure", "output"),
        ("cure", "save_exclusions"),
        ("cure", "save_recipe"),
        ("diagnose", "html"),
        ("sensitivity", "figure"),
        ("whatif", "output"),
        ("whatif", "save_recipe"),
        ("quantize", "output"),
        ("quantize", "onnx"),
        ("import-keras", "output"),
        ("import-keras", "torch"),
    }
    reads = {(command, name) for command, _, _, name, _ in CASES}
    assert {("quantize", "calibration_data"), ("whatif", "recipe"), ("graph", "overlay")} <= reads


@pytest.mark.parametrize("spelling", SPELLED)
@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]} {c[1]} {c[3]}" for c in CASES])
def test_what_a_command_reads_it_does_not_write_over(
    case: tuple[str, str, Writes, str, str | None], spelling: str, tmp_path: Path
) -> None:
    command, output, mark, _, option = case
    folder = tmp_path / "files"
    folder.mkdir()
    source = folder / f"mine{mark.suffixes[0]}"
    source.write_bytes(b"a person's own")
    target = SPELLED[spelling](source)
    words = [command, *([str(source)] if option is None else ["resnet8-int8", option, source])]
    words += [*NEEDED.get(command, []), f"--{output.replace('_', '-')}", target, "--force"]
    if output not in ("output", "html", "figure", "save_recipe"):  # a second output
        words += ["-o", folder / f"first.{'pt2' if command == 'quantize' else 'onnx'}"]
    elif command in ("quantize", "import-keras", "graph", "capture"):
        assert output == "output"
    assert refused(*words) == (
        f"quantscope: {target} is a file that is read; give another name to write to\n"
    )
    assert source.read_bytes() == b"a person's own"
    assert {path.name for path in folder.iterdir()} <= {source.name, target.name}


def test_two_outputs_of_a_command_have_different_suffixes(tmp_path: Path) -> None:
    """So they cannot be one file; what they would be called is refused before it is written."""
    for words in (
        ("quantize", "resnet8-torch", "-o", tmp_path / "x.pt2", "--onnx", tmp_path / "x.pt2"),
        ("import-keras", "k.h5", "-o", tmp_path / "x.onnx", "--torch", tmp_path / "x.onnx"),
        ("whatif", "resnet8-int8", "--off", "stem", "--save-recipe", tmp_path / "x.onnx"),
    ):
        assert "has another suffix" in refused(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("sensitivity", "resnet8-int8", "--figure", "data/bundled/cifar10-test-sample.png"),
        ("graph", "resnet8-int8", "-o", "report/new.svg"),
        ("quantize", "resnet8", "-o", "zoo/bundled/resnet8-int8.onnx"),
    ],
)
def test_quantscope_itself_is_not_written_to(words: tuple[str, ...]) -> None:
    *others, name = words
    path = PACKAGE / name
    before = path.read_bytes() if path.exists() else None
    assert refused(*others, path, "--force") == (
        f"quantscope: {path} is part of quantscope itself; write somewhere else\n"
    )
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_file_that_appears_while_its_content_is_made_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.svg"
    render = graph.render

    def slowly(drawing: Drawing, suffix: str) -> bytes:
        path.write_text("somebody's own")
        return render(drawing, suffix)

    monkeypatch.setattr(graph, "render", slowly)
    assert refused("graph", "resnet8-int8", "-o", path) == (
        f"quantscope: {path} appeared while it was made; give another name, or replace it with "
        "--force\n"
    )
    assert path.read_text() == "somebody's own"
    assert list(tmp_path.iterdir()) == [path]
    assert run("graph", "resnet8-int8", "-o", path, "--force").returncode == 0
    assert path.read_bytes().startswith(b"<?xml")


def test_data_beside_a_model_is_read_too(tmp_path: Path, random_resnet8: Path) -> None:
    """Which files an ONNX model keeps its weights in only the model says."""
    model, data = tmp_path / "m.onnx", tmp_path / "weights.svg"
    proto = onnx.load(random_resnet8)
    onnx.save(proto, model, save_as_external_data=True, location=data.name, size_threshold=0)
    before = data.read_bytes()
    text = refused("graph", model, "-o", data, "--force")
    assert text == f"quantscope: {data} is a file that is read; give another name to write to\n"
    assert data.read_bytes() == before


SUFFIXES = [
    (["quantize", "resnet8", "-o", "z.txt"], "--output writes .onnx or .pt2 files; z.txt"),
    (["quantize", "resnet8", "-o", "z"], "--output writes .onnx or .pt2 files; z"),
    (["import-keras", "k.h5", "-o", "k.h5"], "--output writes .onnx files; k.h5"),
    (
        ["import-keras", "k.h5", "-o", "a.onnx", "--torch", "k.h5"],
        "--torch writes .safetensors files; k.h5",
    ),
    (["graph", "resnet8", "-o", "a.gif"], "--output writes .svg, .png, .dot or .html files; a.gif"),
    (["compare", "resnet8-int8", "--html", "a.pdf"], "--html writes .html or .htm files; a.pdf"),
    (["sensitivity", "resnet8-int8", "--figure", "a.x"], "--figure writes .png or .svg files; a.x"),
    (["capture", "resnet8-int8", "-o", "c.txt"], "--output writes .npz files; c.txt"),
]


@pytest.mark.parametrize(("words", "text"), SUFFIXES, ids=[text for _, text in SUFFIXES])
def test_suffixes_that_are_not_written_are_refused(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.h5").write_bytes(b"weights")
    assert refused(*words, "--force") == f"quantscope: {text} has another suffix\n"
    assert (tmp_path / "k.h5").read_bytes() == b"weights"


def test_links_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    model = ["graph", "resnet8-int8", "--force", "-o"]
    target, link, loose = tmp_path / "t.svg", tmp_path / "l.svg", tmp_path / "loose.svg"
    pipe, device = tmp_path / "p.svg", tmp_path / "d.svg"
    target.write_text("mine")
    link.symlink_to(target)
    loose.symlink_to(tmp_path / "nowhere.svg")
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    said = "is a link, which is not written through; name the file itself: "
    assert refused(*model, link) == f"quantscope: {link} {said}{target}\n"
    assert refused(*model, loose) == f"quantscope: {loose} {said}{tmp_path / 'nowhere.svg'}\n"
    assert refused(*model, device) == f"quantscope: {device} {said}/dev/null\n"
    assert "is a device or a pipe; give the name of a file" in refused(*model, pipe)
    assert target.read_text() == "mine" and link.is_symlink() and pipe.is_fifo()


def test_a_name_that_no_file_can_have_is_one_line(tmp_path: Path) -> None:
    text = refused("graph", "resnet8-int8", "-o", tmp_path / f"{'n' * 300}.svg")
    assert text.endswith("File name too long\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_command_and_leaves_nothing(number: int, tmp_path: Path) -> None:
    images = tmp_path / "images.npz"
    rng = np.random.default_rng(0)
    np.savez(images, images=rng.integers(0, 256, (5000, 3, 32, 32), np.uint8))
    folder = tmp_path / "made"
    folder.mkdir()
    words = ["quantize", "resnet8", "--calibration-images", "5000", "--calibration", "entropy"]
    words += ["--calibration-data", str(images)]
    command = subprocess.Popen(
        [sys.executable, "-m", "quantscope", *words, "-o", str(folder / "q.onnx")],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    # A file in its folder: the instant in which there is a folder and nobody's yet is not meant.
    while not list(folder.glob("quantscope-*/*")) and command.poll() is None:
        time.sleep(0.01)
    assert command.poll() is None, "it ended before it could be stopped"
    command.send_signal(number)
    _, said = command.communicate(timeout=60)
    assert (command.returncode, said) == (128 + number, b"Stopped.\n")
    assert not list(folder.glob("*quantscope*")) and not (folder / "q.onnx").exists()


def test_what_a_killed_command_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """The one that holds the file of another is alive, and keeps it."""
    path = tmp_path / "a.svg"
    script = (
        "import os, sys, time; from pathlib import Path; from quantscope.files import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as t:\n"
        "    t.write_text('half'); print('writing', flush=True); time.sleep(60)"
    )
    writing = [
        subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for each in writing:
        assert each.stdout and each.stdout.readline() == b"writing\n"
    assert len(list(tmp_path.glob(f"{TEMPORARY}*"))) == 2
    writing[0].kill()
    writing[0].communicate()
    assert run("graph", "resnet8-int8", "-o", path).returncode == 0
    assert len(list(tmp_path.glob(f"{TEMPORARY}*"))) == 1
    writing[1].terminate()
    writing[1].communicate()
    shutil.rmtree(tmp_path)
