"""The command line as a person meets it: exit codes, one line for bad input, real processes."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import own_process
import pytest
from in_process import refused, run

import quantscope
import quantscope.zoo

COMMANDS = [
    *(("evaluate",), ("inspect",), ("graph",), ("compare",), ("trace",), ("accumulators",)),
    *(("capture",), ("sensitivity",), ("whatif",), ("quantize",), ("study",), ("play",)),
    *(("import-keras",), ("data", "fetch"), ("data", "info")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_documented_with_an_example(command: tuple[str, ...]) -> None:
    done = run(*command, "--help")
    assert done.returncode == 0
    assert f"Example: quantscope {' '.join(command)}" in " ".join(done.stdout.split())


def test_help_names_every_command() -> None:
    done = own_process.run("--help")
    assert done.returncode == 0
    assert all(command[0] in done.stdout for command in COMMANDS)


def test_evaluate_prints_json_and_nothing_else() -> None:
    done = own_process.run("evaluate", "resnet8", "--images", 100, "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout)
    keys = (
        "model digest execution data images correct accuracy loss interval_95 per_class confusion"
    )
    assert set(keys.split()) <= result.keys()
    assert result["images"] == sum(map(sum, result["confusion"])) == 100
    assert result["accuracy"] == result["correct"] / 100
    assert result["interval_95"][0] < result["accuracy"] < result["interval_95"][1]
    assert result["per_class"][0].keys() == {"name", "correct", "total", "accuracy"}


def test_evaluate_against_itself_has_no_flips() -> None:
    done = run("evaluate", "resnet8", "--against", "resnet8", "--images", 50, "--json")
    against = json.loads(done.stdout)["against"]
    assert (against["delta"], against["gained"], against["lost"]) == (0.0, [], [])
    assert against["p_value"] == 1.0


def test_evaluate_shows_what_it_measured() -> None:
    done = run("evaluate", "resnet8", "--images", 100, "--execution", "reference")
    assert "reference execution" in done.stdout
    assert "of 100 images of cifar10-test-sample" in done.stdout
    assert "airplane" in done.stdout


def test_import_keras_writes_both_forms(shared_folder: Path, tmp_path: Path) -> None:
    source = shared_folder / "mlperf-tiny" / "pretrainedResnet.h5"
    model, weights = tmp_path / "r.onnx", tmp_path / "r.safetensors"
    done = run("import-keras", source, "-o", model, "--torch", weights, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["onnx"] == str(model)
    assert json.loads(run("evaluate", model, "--images", 50, "--json").stdout)["images"] == 50
    assert json.loads(run("evaluate", weights, "--images", 50, "--json").stdout)["images"] == 50


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "resnet8-int9"),
        ("compare", "resnet8-int8", "--float", "resnet8-int9"),
        ("capture", "resnet8-int9", "-o", "never-written.npz"),
        ("sensitivity", "resnet8-int9"),
        ("whatif", "resnet8-int9", "--off", "weights"),
    ],
    ids=" ".join,
)
def test_a_model_that_is_not_there_names_the_bundled_ones(words: tuple[str, ...]) -> None:
    assert refused(*words) == (
        "quantscope: There is no file resnet8-int9; give a model's path, or a bundled one: "
        "resnet8, resnet8-int8, resnet8-uint8, resnet8-torch\n"
    )


@pytest.mark.parametrize("command", [("sensitivity",), ("whatif", "--off", "stem"), ("compare",)])
def test_a_float_model_of_the_other_kind_is_refused_in_words(command: tuple[str, ...]) -> None:
    assert refused(*command, "resnet8-int8", "--float", "resnet8-torch") == (
        "quantscope: resnet8.safetensors is a PyTorch model, but resnet8-int8.onnx is ONNX; "
        "give its float model as .onnx (bundled: resnet8)\n"
    )


def test_the_command_of_a_hint_works_when_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "two words"
    folder.mkdir()
    copy = folder / "mine.onnx"
    copy.write_bytes(quantscope.bundled_models()["resnet8-int8"].read_bytes())
    for model, shown in ((copy, f"'{copy}'"), ("resnet8-int8", "resnet8-int8")):
        line = refused("inspect", model, "--layer", "nosuch")
        hint = line.partition("List them with: quantscope ")[2].rstrip()
        assert hint == f"inspect {shown}"
        assert run(*shlex.split(hint)).returncode == 0


@pytest.fixture
def truncated(random_resnet8: Path, tmp_path: Path) -> Path:
    path = tmp_path / "cut.onnx"
    path.write_bytes(random_resnet8.read_bytes()[:200_000])
    return path


def test_bad_models_get_one_line(truncated: Path, tmp_path: Path) -> None:
    assert "There is no file nowhere.onnx" in refused("evaluate", "nowhere.onnx")
    text = tmp_path / "text.onnx"
    text.write_text("hello there\n")
    assert "is not an ONNX model" in refused("evaluate", text)
    assert "cut short or damaged" in own_process.refused("evaluate", truncated)
    assert "is a folder" in refused("evaluate", tmp_path)


def test_a_model_onnxruntime_cannot_run_gets_one_line(random_resnet8: Path, tmp_path: Path) -> None:
    model = onnx.load(random_resnet8)
    model.graph.node[0].op_type = "Nonsense"
    path = tmp_path / "nonsense.onnx"
    onnx.save(model, path)
    assert "Nonsense" in own_process.refused("evaluate", path)


def test_a_model_that_fails_while_it_runs_gets_one_line(
    random_resnet8: Path, tmp_path: Path
) -> None:
    model = onnx.load(random_resnet8)
    (flatten,) = (node for node in model.graph.node if node.op_type == "Flatten")
    shape = onnx.numpy_helper.from_array(np.array([1, -1]), "one_image")
    model.graph.initializer.append(shape)
    flatten.CopyFrom(onnx.helper.make_node("Reshape", [*flatten.input, shape.name], flatten.output))
    path = tmp_path / "one.onnx"
    onnx.save(model, path)
    line = own_process.refused("evaluate", path, "--images", 2)
    assert "one.onnx failed while running: " in line
    line = refused("quantize", path, "-o", tmp_path / "q.onnx", "--calibration-images", 2)
    assert "failed while it was calibrated" in line


def test_bad_options_get_one_line(tmp_path: Path) -> None:
    line = refused("sensitivity", "resnet8-int8", "--mode", "all")
    assert "Invalid value for '--mode': 'all' is not one of 'disable', 'enable', 'both'." in line
    assert "choose 1 to 1,000" in refused("evaluate", "resnet8", "--images", 0)
    assert "2,000 images were asked" in refused("evaluate", "resnet8", "--images", 2000)
    assert "No such option" in refused("evaluate", "resnet8", "--imagse", 3)
    assert "Missing argument" in refused("evaluate")
    assert "at least one image" in refused("evaluate", "resnet8", "--batch", 0)
    assert "No such command" in refused("evalute")


def test_bad_data_gets_one_line(tmp_path: Path) -> None:
    assert "nowhere.npz" in refused("evaluate", "resnet8", "--data", tmp_path / "nowhere.npz")
    empty = {"QUANTSCOPE_CACHE": str(tmp_path)}
    assert "quantscope data fetch" in refused("evaluate", "resnet8", "--data", "full", **empty)


def test_output_paths_that_cannot_be_written_get_one_line(
    shared_folder: Path, tmp_path: Path
) -> None:
    source = shared_folder / "mlperf-tiny" / "pretrainedResnet.h5"
    assert "is a folder" in refused("import-keras", source, "-o", tmp_path)
    missing = tmp_path / "no" / "r.onnx"
    assert "There is no folder" in refused("import-keras", source, "-o", missing)


def test_without_torch_a_line_says_how_to_install_it(tmp_path: Path) -> None:
    # A folder on the path whose `torch` is missing, as for a person who did not ask for the extra.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['torch'] = None\nsys.modules['torchao'] = None\n"
    )
    line = own_process.refused("evaluate", "resnet8-torch", first=tmp_path)
    assert "pip install 'quantscope[torch]'" in line
    words = ("evaluate", "resnet8", "--images", 10, "--json")
    done = own_process.run(*words, first=tmp_path)
    assert done.returncode == 0, done.stderr


def test_version_needs_no_command() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"quantscope {quantscope.__version__}\n")


def test_no_command_shows_the_help_and_nothing_else() -> None:
    done = run()
    assert done.returncode == 2
    assert "Commands" in done.stdout + done.stderr
    assert "quantscope: ." not in done.stderr


def test_a_reader_that_has_enough_is_no_failure() -> None:
    command = [sys.executable, "-m", "quantscope", "inspect", "resnet8-int8", "--layer", "stem"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "resnet8-int8"),
        ("inspect", "resnet8-int8", "--json"),
        ("compare", "--help"),
        *(
            pytest.param(tuple(words.split()), marks=pytest.mark.slow)
            for words in (
                "compare resnet8-int8 --images 2 --json",
                "trace resnet8-int8 --layer stem --at 3,5,7",
            )
        ),
    ],
    ids=" ".join,
)
def test_an_output_that_cannot_be_written_is_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "quantscope", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == "quantscope: Cannot write the output: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_closed_output_is_no_failure() -> None:
    command = f"{sys.executable} -m quantscope inspect resnet8-int8 --json >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
def test_ctrl_c_says_that_it_stopped(tmp_path: Path) -> None:
    # Loading the data waits, so that the signal finds the command at work.
    (tmp_path / "sitecustomize.py").write_text(
        "import quantscope.data as data, time\n"
        "def load(name, **rest):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "data.load = load\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "quantscope", "compare", "resnet8-int8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *filter(None, sys.path)))},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "Stopped.\n"
    assert process.returncode == 130


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_leaves_half_of_a_narrow_terminal_for_words(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*command, "--help")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in done.stdout  # nothing of the syntax is cut
    starts = {len(line) - len(line.lstrip()) for line in lines}
    assert max(starts) <= 40


def test_help_says_which_images_are_taken_unless_told() -> None:
    texts = {
        name: " ".join(run(name, "--help").stdout.split())
        for name in ("compare", "sensitivity", "capture")
    }
    assert "Left out: image 0 alone." in texts["capture"]
    for name in ("compare", "sensitivity"):
        assert "of which 1,000 are used unless --images says more" in texts[name]


def test_onnxruntime_is_not_let_to_tell_of_its_use(tmp_path: Path) -> None:
    """Where it may, it keeps a file of its telemetry in the folder for temporary files."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    for variable in ("ORT_DISABLE_TELEMETRY", "CI"):  # it does not tell of the use in CI
        environment.pop(variable, None)
    command = [sys.executable, "-c", "import quantscope, onnxruntime"]
    subprocess.run(command, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
