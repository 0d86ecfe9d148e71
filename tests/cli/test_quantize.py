"""`quantscope quantize` as a person meets it: real processes, one line for bad input."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import in_process
import numpy as np
import onnx
import pytest
from tests import small_networks

from quantscope.data import load_sample
from quantscope.model import open_model
from quantscope.quantize import program_agreement
from quantscope.zoo import Weights, write_safetensors


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "quantscope", "quantize", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": "src"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def refused(*arguments: object) -> str:
    return in_process.refused("quantize", *arguments).removeprefix("quantscope: ").strip()


def nodes(path: Path) -> dict[str, str]:
    return {node.name: node.op_type for node in onnx.load(path).graph.node}


def test_options_reach_the_model(random_resnet8: Path, tmp_path: Path) -> None:
    output = tmp_path / "q.onnx"
    options = "--activations uint8 --weights int8 --calibration percentile --percentile 99.9"
    options += " --calibration-images 20 --per-tensor --symmetric-activations --reduce-range"
    options += " --format qdq --json --exclude stem head"
    done = run(random_resnet8, "-o", output, *options.split())
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["label"] == (
        "uint8 · per tensor · percentile 99.9 20 · symmetric · 7-bit weights · "
        "float: stem, head · QDQ"
    )
    assert result["size_bytes"] == output.stat().st_size
    assert result["warnings"] == []


def test_it_says_what_it_wrote_and_what_comes_next(random_resnet8: Path, tmp_path: Path) -> None:
    output = tmp_path / "q.onnx"
    done = run(random_resnet8, "-o", output, "--calibration-images", 8, "--format", "qoperator")
    assert "Wrote" in done.stdout
    assert "int8 · per channel · minmax 8 · QOperator" in done.stdout
    assert f"quantscope evaluate {output}" in done.stdout
    assert "QLinearConv" in nodes(output).values()


def test_warnings_go_to_stderr(random_resnet8: Path, tmp_path: Path) -> None:
    images = tmp_path / "black.npz"
    np.savez(images, images=np.zeros((4, 3, 32, 32), np.uint8), labels=np.arange(4))
    options = ("--calibration-data", images, "--calibration-images", 4, "--json")
    done = run(random_resnet8, "-o", tmp_path / "q.onnx", *options)
    first = "quantscope: The quantizer of 'input' saw only the value 0 in 4 calibration rows; "
    assert done.stderr.splitlines()[0].startswith(first)
    assert "The quantizer of 'input' saw only" in json.loads(done.stdout)["warnings"][0]


def test_all_rows_of_a_small_file_calibrate(tmp_path: Path) -> None:
    model = small_networks.float_path("encoder", tmp_path)
    np.savez(tmp_path / "rows.npz", **small_networks.feeds("encoder", 5))
    given = ("--calibration-data", tmp_path / "rows.npz")
    done = run(model, "-o", tmp_path / "q.onnx", "--json", *given)
    assert done.returncode == 0
    assert json.loads(done.stdout)["provenance"]["calibration"]["images"] == 5
    assert refused(model, "-o", tmp_path / "r.onnx", "--calibration-images", 9, *given) == (
        "9 calibration rows were asked for, but rows.npz has 5; use --calibration-images 5"
    )


def test_contradictions_are_one_line(
    random_resnet8: Path, random_weights: Weights, tmp_path: Path
) -> None:
    weights = tmp_path / "r.safetensors"
    write_safetensors(random_weights, weights)
    out, pt2 = tmp_path / "q.onnx", tmp_path / "q.pt2"
    assert refused(weights, "-o", pt2, "--framework", "onnxruntime") == (
        "r.safetensors is quantized with torch, but --framework says onnxruntime; "
        "torch takes float programs (.pt2) and ResNet8's .safetensors, onnxruntime takes .onnx"
    )
    assert refused(random_resnet8, "-o", out, "--onnx", tmp_path / "b.onnx") == (
        "--onnx goes with --framework torch; onnxruntime writes ONNX to -o"
    )
    assert refused(weights, "-o", out) == (
        f"torch writes .pt2 (and ONNX with --onnx FILE); {out} has another suffix"
    )
    program = tmp_path / "f.pt"
    program.write_bytes(b"PK")
    for options in ((), ("--framework", "torch")):
        assert refused(program, "-o", pt2, *options).startswith(
            "f.pt is an archive of PyTorch, which is not quantized here; give a float"
        )
    assert refused(random_resnet8, "-o", pt2) == (
        f"onnxruntime writes .onnx; {pt2} has another suffix"
    )
    assert refused(random_resnet8, "-o", out, "--calibration-data", "sample") == (
        "--calibration-data sample names test images, which must not calibrate; leave it out for "
        "CIFAR-10's training images"
    )
    assert refused(random_resnet8, "-o", out, "--shape", "1x3x32x32") == (
        "--shape, --size and the like say how the rows of --calibration-data are made; give that "
        "as well"
    )
    assert refused(random_resnet8, "other.onnx", "-o", out) == (
        "One model is quantized at a time; 'other.onnx' is one too many"
    )
    assert refused(random_resnet8, "-o", out, "--weights", "uint8").startswith(
        "onnxruntime's quantize_static refuses int8 activations with uint8 weights"
    )


@pytest.mark.slow
def test_torch_writes_a_program_and_its_onnx(random_weights: Weights, tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    weights, pt2, out = (tmp_path / name for name in ("r.safetensors", "q.pt2", "q.onnx"))
    write_safetensors(random_weights, weights)
    options = ("--observer", "minmax", "--weight-observer", "minmax", "--calibration-images", 8)
    done = run(weights, "-o", pt2, "--framework", "torch", "--onnx", out, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Wrote {pt2} and {out}" in done.stdout
    text = " ".join(done.stdout.split())
    assert re.search(
        r"agree in the class of \d+ of 200 test images and in all logits of \d+ "
        r"\(up to float32 rounding: \d+\); the largest difference is [\d.e-]+\. "
        r"They add a convolution's float products in different orders",
        text,
    )
    assert nodes(out)["stack1.add"] == "Add"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--weight-bits", "9"], "--weight-bits is '9'; give 2 to 8, 16 or float"),
        (["--activation-bits", "few"], "--activation-bits is 'few'; give 2 to 8, 16 or float"),
        (
            ["--weight-bits", "4", "--format", "qoperator"],
            "qoperator has no place for bits other than its types'; use --format qdq",
        ),
    ],
)
def test_widths_that_nothing_has_are_one_line(
    words: list[str], why: str, random_resnet8: Path, tmp_path: Path
) -> None:
    assert refused(random_resnet8, "-o", tmp_path / "q.onnx", *words) == why
    assert not (tmp_path / "q.onnx").exists()


def test_a_program_gets_bits_in_both_of_its_forms(tmp_path: Path) -> None:
    program, also = tmp_path / "q.pt2", tmp_path / "q.onnx"
    options = "--weight-bits 4 --activation-bits 6 --activations int8 --calibration-images 8"
    done = in_process.run("quantize", "resnet8-torch", "-o", program, "--onnx", also,
                          *options.split())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "W4A6" in done.stdout
    for path, weight_type in ((program, "int8, 4 of 8 bits"), (also, "int4")):
        tensors = open_model(path).network.tensors
        types = {tensor.role: tensor.params.type_text for tensor in tensors}
        assert (types["weight"], types["activation"]) == (weight_type, "int8, 6 of 8 bits")
    agreement = program_agreement(program, also, load_sample().take(20))
    assert agreement.same_class == 20
    refusal = refused("resnet8-torch", "-o", tmp_path / "r.pt2", "--weight-bits", 16,
                      "--calibration-images", 2)  # fmt: skip
    assert "cannot have 16 bits: r.pt2 is a program of PyTorch, whose int8 holds 2 to 8" in refusal
