"""A Clip that the quantizer folds, as MobileNets have it."""

from pathlib import Path

import numpy as np
import onnx

from quantscope.data import load_npz
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run import trace_value


def test_a_folded_clip_is_compared_with_the_float_clip(tmp_path: Path) -> None:
    """A ReLU6 goes into the quantizer; what it cuts off is no error."""
    rng = np.random.default_rng(2)
    weights = rng.normal(0, 1, (3, 2, 3, 3)).astype(np.float32)
    text = (
        '<ir_version: 9, opset_import: ["" : 20]> g (float[N,2,6,5] x) => (float[N,3,4,3] y) '
        "<float low = {0}, float high = {6}> { c = Conv(x, w) y = Clip(c, low, high) }"
    )
    model = onnx.parser.parse_model(text)
    for node, name in zip(model.graph.node, ("conv", "clip"), strict=True):
        node.name = name
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "float.onnx")
    np.savez(
        tmp_path / "images.npz",
        images=rng.normal(0, 1, (12, 2, 6, 5)).astype(np.float32),
        labels=np.zeros(12, int),
    )
    images = load_npz(tmp_path / "images.npz")
    quantize_onnx(
        tmp_path / "float.onnx",
        tmp_path / "q.onnx",
        PtqConfig(calibration_images=12),
        calibration=images,
    )
    traces = [
        trace_value(
            tmp_path / "q.onnx",
            "conv",
            image,
            (channel, 1, 1),
            data=images,
            float_model=tmp_path / "float.onnx",
        )
        for image in range(3)
        for channel in range(3)
    ]
    cut = [trace for trace in traces if trace.integer == trace.qmin]
    assert cut
    for trace in traces:
        assert trace.float_value is not None
        assert 0 <= trace.float_value <= 6
