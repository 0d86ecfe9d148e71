"""`quantscope compare` as a person meets it: its page, two versions, kinds of bad input."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from quantscope.cli import app
from quantscope.data import load_sample
from quantscope.errors import QuantscopeError
from quantscope.model import Execution
from quantscope.report.compare import comparison_lines as lines
from quantscope.report.table import wrap
from quantscope.run.compare.compare import compare


def run(*words: object) -> str:
    """What it prints; errors are raised, as `main` gets them."""
    done = CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words: object) -> str:
    with pytest.raises(QuantscopeError) as caught:
        run(*words)
    text = str(caught.value)
    assert "\n" not in text
    return text


def tiny(
    folder: Path, name: str, *, quantize: bool, factor: float = 1.0, end: str = "GlobalAveragePool"
) -> Path:
    """x -> times `factor` -> average: a network of another shape than ResNet8."""
    constants = [numpy_helper.from_array(np.float32(factor), "factor")]
    nodes = []

    def through(value: str) -> str:
        if not quantize:
            return value
        constants.append(numpy_helper.from_array(np.float32(0.1), f"{value}_s"))
        constants.append(numpy_helper.from_array(np.uint8(128), f"{value}_z"))
        params = [f"{value}_s", f"{value}_z"]
        nodes.append(helper.make_node("QuantizeLinear", [value, *params], [f"{value}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{value}_q", *params], [f"{value}_d"]))
        return f"{value}_d"

    nodes.append(helper.make_node("Mul", [through("x"), "factor"], ["grown"], name="grown"))
    nodes.append(helper.make_node(end, [through("grown")], ["mean"], name="mean"))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4, 4])],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, folder / name)
    return folder / name


def images(folder: Path, values: Any, name: str = "images.npz") -> Path:
    np.savez(folder / name, images=values, labels=np.zeros(len(values), np.int64))
    return folder / name


def test_a_network_that_is_no_classifier_has_no_classes(tmp_path: Path) -> None:
    model, original = (
        tiny(tmp_path, f"{is_quantized}.onnx", quantize=is_quantized, end="Relu")
        for is_quantized in (True, False)
    )
    data = images(tmp_path, np.random.default_rng(0).normal(0, 1, (3, 3, 4, 4)).astype("float32"))
    words = model, "--float", original, "--data", data
    why = "the output has shape [3, 3, 4, 4] for 3 images, not [images, classes]"
    assert f"no classes to compare: {why}" in run(*words)
    found = json.loads(run(*words, "--json"))
    assert found["output"] is None and found["no_output"] == why
    assert [t["name"] for t in found["tensors"] if t["role"] == "activation"] == ["x", "grown.out"]
    run(*words, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert why in page and "same class" not in page


def test_json_has_the_promised_keys_and_nothing_else_is_printed() -> None:
    found = json.loads(run("resnet8-int8", "--images", 3, "--json"))
    assert found["images"] == 3 and found["float_model"] == "resnet8.onnx"
    assert {"name", "float_name", "layer", "role", "sqnr_db", "local_sqnr_db", "exact"} <= set(
        found["tensors"][0]
    )


def test_json_has_channels_only_where_they_are_asked_for() -> None:
    words = ("resnet8-int8", "--images", 3, "--json")
    plain, full = (json.loads(run(*words, *more)) for more in ((), ("--channels",)))
    assert plain["schema_version"] == full["schema_version"] == 2
    for one, all_of_it in zip(plain["tensors"], full["tensors"], strict=True):
        channels = all_of_it.pop("channels")
        assert one == all_of_it
        assert one["channel_count"] == len(channels)
        worst = [channels[number]["sqnr_db"] for number in one["worst_channels"]]
        assert one["worst_channels_sqnr_db"] == worst
    alone = json.loads(run(*words, "--tensor", "stem.weight"))
    (found,) = alone["tensors"]
    assert (found["name"], found["channel_count"]) == ("stem.weight", 16)
    assert len(found["channels"]) == 16
    assert alone["usual"] == plain["usual"] and alone["reading"] == plain["reading"]


def test_the_json_of_two_versions_has_channels_only_where_they_are_asked_for() -> None:
    words = ("resnet8-int8", "--with", "resnet8-uint8", "--images", 2, "--json")
    plain, full = (json.loads(run(*words, *more)) for more in ((), ("--channels",)))
    of_weights = [
        next(row["first"] for row in found["rows"] if row["role"] == "weight")
        for found in (plain, full)
    ]
    assert (
        "channels" not in of_weights[0]["error"] and len(of_weights[1]["error"]["channels"]) == 16
    )
    assert "min" in of_weights[0]["params"]["scale"]
    assert len(of_weights[1]["params"]["scale"]) == 16


def test_the_json_of_wide_layers_is_small(tmp_path: Path) -> None:
    """Ten tensors of 4,096 channels each take no more room than ten of one channel."""
    paths = []
    for quantize in (True, False):
        path = tmp_path / f"wide-{quantize}.onnx"
        paths.append(path)
        save_wide(path, quantize=quantize)
    data = images(tmp_path, np.random.default_rng(2).normal(0, 1, (2, 4096)).astype(np.float32))
    words = (paths[0], "--float", paths[1], "--data", data, "--json")
    small, large = run(*words), run(*words, "--channels")
    assert len(small) < 4000 * len(json.loads(small)["tensors"]) + 4000
    assert len(large) > 50 * len(small)


def save_wide(path: Path, *, quantize: bool) -> None:
    """x -> Relu, ten times over 4,096 channels."""
    constants = [
        numpy_helper.from_array(np.float32(0.03), "s"),
        numpy_helper.from_array(np.uint8(128), "z"),
    ]
    nodes, value = [], "x"
    for number in range(10):
        if quantize:
            q, d = f"{value}_q", f"{value}_d"
            nodes.append(helper.make_node("QuantizeLinear", [value, "s", "z"], [q]))
            nodes.append(helper.make_node("DequantizeLinear", [q, "s", "z"], [d]))
            value = d
        made = f"y{number}"
        nodes.append(helper.make_node("LeakyRelu", [value], [made], name=made))
        value = made
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", kind, ["N", 4096])],
        [helper.make_tensor_value_info(value, kind, ["N", 4096])],
        constants if quantize else [],
    )
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def test_one_tensor_is_shown_channel_by_channel() -> None:
    text = run("resnet8-int8", "--images", 3, "--tensor", "stem.weight")
    assert "channels of stem.weight: SQNR in dB" in text
    rows = [line.split() for line in text.splitlines() if re.match(r" *\d+ +\d", line)]
    assert [row[0] for row in rows] == [str(number) for number in range(16)]
    found = compare("resnet8-int8", load_sample().take(3))["stem.weight"].channels
    assert [row[1] for row in rows] == [f"{channel.sqnr_db:.1f}" for channel in found]


def test_channels_that_cannot_be_shown_are_refused_before_the_work() -> None:
    assert refused("resnet8-int8", "--channels") == (
        "--channels is for --json; --tensor NAME shows one tensor's as a table"
    )
    assert refused("resnet8-int8", "--with", "resnet8-uint8", "--tensor", "input") == (
        "--tensor shows one model's tensor; leave out --with"
    )
    assert refused("resnet8-int8", "--tensor", "stem.weigt").startswith(
        "No quantized tensor 'stem.weigt' in resnet8-int8.onnx; closest: stem.weight"
    )


def test_two_versions_stand_side_by_side(quantized: Callable[..., Path]) -> None:
    other = quantized(activations="uint8", per_channel=False)
    words = ("resnet8-int8", "--with", other, "--float", "resnet8", "--images", 3)
    text = run(*words)
    assert "1: resnet8-int8.onnx against resnet8.onnx, reference execution, 3 images" in text
    assert f"2: {other.name} against resnet8.onnx" in text
    assert re.search(r"stem\.relu\.out +int8 s .* z -128 .* uint8 s .* z 0 ", text)
    found = json.loads(run(*words, "--json"))
    assert found["first"]["model"] == "resnet8-int8.onnx"
    assert found["second"]["model"] == other.name
    row = next(r for r in found["rows"] if r["float_name"] == "stem.relu.out")
    assert row["first"]["params"]["dtype"] == "int8"
    assert row["second"]["params"]["dtype"] == "uint8"
    assert row["sqnr_change_db"] is not None


def test_the_page_is_whole_and_shows_bars_of_the_sources(tmp_path: Path) -> None:
    model = tiny(tmp_path, "q.onnx", quantize=True, factor=1.7)
    original = tiny(tmp_path, "f.onnx", quantize=False, factor=1.7)
    values = np.random.default_rng(1).normal(0, 3, (4, 3, 4, 4)).astype(np.float32)
    pictures = images(tmp_path, values)
    before = set(tmp_path.iterdir())
    page = tmp_path / "page.html"
    text = run(model, "--float", original, "--data", pictures, "--html", page)
    assert f"Wrote {page}" in text
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>") and html.rstrip().endswith("</html>")
    assert "q.onnx against f.onnx" in html
    assert "each activation&#x27;s error taken apart" in html
    assert "in the same bins, what the quantizer" in html
    assert not re.search(r'(?:src|href)="https?:', html)
    assert set(tmp_path.iterdir()) - before == {page}


@pytest.mark.slow
def test_the_page_of_two_versions_names_both(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("resnet8-uint8", "--with", "resnet8-int8", "--images", 4, "--html", page, "--json")
    html = page.read_text(encoding="utf-8")
    assert "resnet8-uint8.onnx and resnet8-int8.onnx against resnet8.onnx" in html
    assert ">Side by side</h2>" in html
    assert html.count("accuracy, float → quantized") == 2


def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    assert refused("no-such-model", "--html", tmp_path) == (
        f"{tmp_path} is a folder; give the name of a file to write"
    )
    missing = tmp_path / "there" / "page.html"
    assert refused("no-such-model", "--html", missing) == (
        f"There is no folder {tmp_path / 'there'} to write page.html into"
    )
    assert refused("no-such-model", "--html", tmp_path / "page.pdf") == (
        f"--html writes .html or .htm files; {tmp_path / 'page.pdf'} has another suffix"
    )


def test_labels_that_the_model_does_not_know_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.npz"
    np.savez(path, images=np.zeros((2, 3, 32, 32), np.float32), labels=np.array([3, 99]))
    assert refused("resnet8-int8", "--data", path) == (
        "images.npz has labels 3..99, but resnet8-int8.onnx tells 10 classes apart (0..9)"
    )


def test_a_failure_leaves_the_old_page_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    refused("resnet8", "--float", "resnet8", "--images", 1, "--html", page)
    assert page.read_text() == "old"


def test_networks_that_do_not_belong_together_say_what_did_not_match(
    random_resnet8: Path, tmp_path: Path
) -> None:
    other = tiny(tmp_path, "tiny.onnx", quantize=False)
    assert refused("resnet8-uint8", "--float", other, "--images", 1) == (
        "tiny.onnx and resnet8-uint8.onnx do not belong together: the input x is Nx3x4x4, input is "
        "Nx3x32x32; give the float model that resnet8-uint8.onnx was made from"
    )
    text = refused("resnet8-uint8", "--float", random_resnet8, "--images", 1)
    assert re.fullmatch(
        r"random_resnet8\.onnx and resnet8-uint8\.onnx do not belong together: the layers match, "
        r"but the weights of 10 of 10 differ, first those of stem \(cosine 0\.\d\d\); give the "
        r"float model that resnet8-uint8\.onnx was made from",
        text,
    )


def test_a_quantized_model_is_not_taken_as_the_float_one(tmp_path: Path) -> None:
    text = refused("resnet8-uint8", "--float", "resnet8-int8", "--images", 1)
    assert text == (
        "resnet8-int8.onnx is quantized (36 quantized tensors, qdq); give the float model that "
        "resnet8-uint8.onnx was made from"
    )
    assert refused("resnet8", "--float", "resnet8", "--images", 1) == (
        "resnet8.onnx is a float model: there is nothing to compare it with; quantize it first: "
        "quantscope quantize resnet8 -o OUT.onnx"
    )


def test_no_images_is_said(tmp_path: Path) -> None:
    assert refused("resnet8-uint8", "--images", 0) == (
        "0 images were asked of cifar10-test-sample, which has 1,000; choose 1 to 1,000"
    )
    nothing = images(tmp_path, np.zeros((0, 3, 32, 32), np.float32))
    assert "images.npz" in refused("resnet8-uint8", "--data", nothing)


def test_a_float_model_is_no_quantized_one() -> None:
    assert refused("resnet8") == (
        "resnet8.onnx is a float model: there is nothing to compare it with; quantize it first: "
        "quantscope quantize resnet8 -o OUT.onnx"
    )


def test_without_a_float_model_the_heading_says_what_stands_in(tmp_path: Path) -> None:
    model = tiny(tmp_path, "q.onnx", quantize=True)
    pictures = images(tmp_path, np.ones((2, 3, 4, 4), np.float32))
    text = run(model, "--data", pictures)
    assert "q.onnx with every quantizer off" in text
    found = json.loads(run(model, "--data", pictures, "--json"))
    assert found["float_model"] == "q.onnx with every quantizer off"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_reported_where_they_start(
    bad: float, tmp_path: Path
) -> None:
    model = tiny(tmp_path, "q.onnx", quantize=True)
    original = tiny(tmp_path, "f.onnx", quantize=False)
    values = np.ones((5, 3, 4, 4), np.float32)
    values[3, 1, 2, 0] = bad
    words = (model, "--float", original, "--data", images(tmp_path, values))
    sentence = "x: NaN or infinite in the float network for 1 of 5 images, first image 3"
    assert f"{sentence}; nothing after it can be read." in run(*words)
    assert json.loads(run(*words, "--json"))["not_finite_from"] == sentence


def test_an_overflow_is_reported_at_the_layer_that_makes_it(tmp_path: Path) -> None:
    model = tiny(tmp_path, "q.onnx", quantize=True, factor=3e38)
    original = tiny(tmp_path, "f.onnx", quantize=False, factor=3e38)
    pictures = images(tmp_path, np.full((2, 3, 4, 4), 5, np.float32))
    text = run(model, "--float", original, "--data", pictures)
    assert "grown.out: NaN or infinite in the float network for 2 of 2 images" in text


def test_options_that_need_each_other_say_so() -> None:
    assert refused("resnet8-int8", "--with-float", "resnet8") == (
        "--with-float is the float model of --with; give that too"
    )


def test_a_missing_model_names_the_bundled_ones() -> None:
    for words in (("nothing.onnx",), ("resnet8-int8", "--with", "nothing.onnx")):
        text = refused(*words, "--images", 1)
        assert "nothing.onnx" in text


@pytest.mark.parametrize("execution", ["reference", "runtime"])
@pytest.mark.parametrize("width", [80, 100])
def test_the_tables_fit_a_terminal(width: int, execution: Execution) -> None:
    result = compare("resnet8-int8", load_sample().take(2), execution=execution)
    text = [part for line in lines(result, width) for part in wrap(line, width)]
    assert max(map(len, text)) <= width
    names = {tensor.name for tensor in result.tensors}
    firsts = [line.removeprefix("!").split()[0] for line in text if line.startswith(("  ", "! "))]
    assert len(names & set(firsts)) > 20
    assert any(line.startswith("no room for ") for line in text)
    assert not any(line.startswith("no room for ") for line in lines(result))


def test_the_headings_say_of_what_clipped_and_clipping_are() -> None:
    text = run("resnet8-int8", "--images", 2)
    assert "float values beyond its range (clipped)" in text
    assert "the share of each source in the quantized network's error" in text


def test_small_negative_shares_are_zero() -> None:
    assert "-0.0%" not in run("resnet8-uint8", "--images", 20)
