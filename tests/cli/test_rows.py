"""The options of rows reach the samples, and what is used is said."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from in_process import refused, run
from onnx import TensorProto, helper
from PIL import Image
from tests import small_networks

from quantscope.data import load, load_sample, stratify
from quantscope.run import evaluate


@pytest.fixture(scope="module")
def open_sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pictures with open height and width, which gives each channel's mean."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 3, "h", "w"))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("N", 3))
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)
    graph = helper.make_graph([node], "means", [x], [y])
    path = tmp_path_factory.mktemp("open") / "means.onnx"
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def test_what_is_used_is_said_with_the_result(tmp_path: Path) -> None:
    model = small_networks.quantized("bytes", "qdq-uint8", tmp_path)
    floats = small_networks.float_path("bytes", tmp_path)
    done = run("evaluate", model, "--float", floats, "--data", "random:3", "--seed", 5)
    assert done.returncode == 0, done.stderr
    assert "random rows (seed 5)" in done.stdout
    assert done.stderr == (
        "Data: 3 random rows (seed 5) made from the inputs' shapes: bytes [24] ids below 256\n"
    )
    unasked = run("capture", model, "-o", tmp_path / "c.npz")
    assert unasked.stderr.endswith("; give your own with --data FILE.npz or a folder of pictures\n")


def test_open_sizes_are_given_with_shape(open_sizes: Path) -> None:
    done = run("evaluate", open_sizes, "--data", "random:2", "--shape", "x=1x3x64x96")
    assert "x [3, 64, 96] smooth pictures\n" in done.stderr
    usual = run("evaluate", open_sizes, "--images", 2)
    assert "2 random rows (seed 0)" in usual.stderr
    assert "chosen, as nothing fixes it: h of x 224, w of x 224 (--shape)" in usual.stderr


def test_pictures_are_fed_as_the_options_say(open_sizes: Path, tmp_path: Path) -> None:
    for name, color in (("ape", 255), ("cat", 51)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (9, 7), (color, 0, 0)).save(tmp_path / name / "a.png")
    words = ["--data", tmp_path, "--size", "6x4", "--scale", "1/255", "--mean", "0.2", "--std", 2]
    out = tmp_path / "c.npz"
    words += ["--channels", "bgr", "--image", "0-1", "--layer", "y", "-o", out]
    done = run("capture", open_sizes, *words)
    assert done.returncode == 0, done.stderr
    assert "2 pictures of" in done.stderr and "2 classes: middle of 6x4, BGR" in done.stderr
    with np.load(out) as kept:
        values = next(kept[name] for name in kept.files if kept[name].shape == (2, 3))
    np.testing.assert_allclose(values, [[-0.1, -0.1, 0.4], [-0.1, -0.1, 0.0]], atol=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "random", "--seed", "-1"], "A seed is 0 or more, not -1"),
        (["--shape", "1x3", "--shape", "1x3"], "--shape is given twice for one input"),
        (["--scale", "1,2"], "--scale is one number for all pixels, such as 1/255, not 1,2"),
        (["--data", "sample", "--mean", "1"], "--mean say how a folder of pictures is read; "),
        (["--data", "random", "--shape", "1x4x8x8"], "--shape 1x4x8x8 does not fit the input 'x'"),
        (
            ["--data", "nowhere"],
            "There is no data 'nowhere'; give sample, full, random, ",
        ),
    ],
)
def test_bad_options_are_one_line(words: list[str], said: str, open_sizes: Path) -> None:
    assert refused("evaluate", open_sizes, *words).startswith(f"quantscope: {said}")


def test_a_result_that_fails_says_only_why(tmp_path: Path) -> None:
    floats = small_networks.float_path("bytes", tmp_path)
    assert "is a float model" in refused("accumulators", floats)


def test_rows_are_taken_evenly_as_the_page_takes_them(tmp_path: Path) -> None:
    sample = load_sample().take(60)
    by_class = np.argsort(sample.labels, kind="stable")
    rows = tmp_path / "rows.npz"
    np.savez(rows, images=sample.arrays["images"][by_class], labels=sample.labels[by_class])
    asked = ("evaluate", "resnet8-int8", "--data", rows, "--images", 27, "--json")
    done = run(*asked, "--evenly")
    assert not done.returncode, done.stderr
    told, first = json.loads(done.stdout), json.loads(run(*asked).stdout)
    found = evaluate("resnet8-int8", stratify(load(rows), 27), execution="runtime")
    assert (told["data_digest"], told["correct"]) == (found.data_digest, found.correct)
    assert first["data_digest"] != found.data_digest


def test_evenly_needs_a_number_of_rows_that_there_are() -> None:
    assert "say how many with --images N" in refused("evaluate", "resnet8-int8", "--evenly")
    line = refused("whatif", "resnet8-int8", "--off", "stem", "--images", 2000, "--evenly")
    assert "2,000 images were asked" in line
