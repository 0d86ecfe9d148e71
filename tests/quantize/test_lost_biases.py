"""Biases that onnxruntime's quantizer would store wrong leave their layers float, and right."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from planted import finished, rows

from quantscope.quantize import PtqConfig, quantize_model
from quantscope.run import gather_outputs, open_runnable


def chain(*, shared: bool, **attributes: float) -> onnx.ModelProto:
    """x[6] -> Gemm -> ReLU -> Gemm, with large biases."""
    rng = np.random.default_rng(1)
    shapes = {"w1": (6, 6), "b1": (6,), "w2": (6, 6), "b2": (6,)}
    constants = [
        numpy_helper.from_array((rng.normal(0, 0.5, shape)).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    second = "b1" if shared else "b2"
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], name="first", **attributes),
        helper.make_node("Relu", ["a"], ["h"], name="relu"),
        helper.make_node("Gemm", ["h", "w2", second], ["y"], name="second"),
    ]
    return finished(nodes, constants, (6,))


@pytest.mark.parametrize(
    ("kind", "shared", "attributes", "why"),
    [
        ("qdq", False, {"beta": 2.0}, "'first' stays float: it multiplies its bias by a beta of 2"),
        ("qdq", False, {"alpha": 0.5}, None),
        ("qdq", True, {}, None),
        (
            "qoperator",
            False,
            {"alpha": 0.5},
            "'first' stays float: it multiplies its products by an alpha of 0.5, not its bias",
        ),
        ("qoperator", True, {}, "'second' stays float: it adds the same bias as 'first'"),
        ("qoperator", False, {}, None),
    ],
)
def test_no_bias_is_lost_whatever_a_gemm_does_with_it(
    kind: Any, shared: bool, attributes: dict[str, float], why: str | None, tmp_path: Path
) -> None:
    floats, quantized = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    floats.write_bytes(chain(shared=shared, **attributes).SerializeToString())
    samples = rows(64, seed=1, shape=(6,))
    config = PtqConfig(
        activations="uint8",
        weights="uint8",
        per_channel=False,
        format=kind,
        calibration_images=64,
    )
    done = quantize_model(floats, quantized, config, calibration=samples)
    assert [w for w in done.warnings if "stays float" in w] == (
        [] if why is None else [f"Layer {why}, and onnxruntime would store that bias wrong"]
    )
    answers = [
        gather_outputs(open_runnable(path, execution="runtime"), samples).outputs["y"]
        for path in (floats, quantized)
    ]
    assert np.abs(answers[1] - answers[0]).mean() < 0.02 * np.abs(answers[0]).mean()
    assert float(np.abs((answers[1] - answers[0]).mean(axis=0)).max()) < 0.02
