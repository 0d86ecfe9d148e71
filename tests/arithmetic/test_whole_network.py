"""The operators one after the other, from the input to the logits, against the shipped kernels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from single_op import needs_avx2_without_vnni, params

from quantscope.arithmetic import (
    ConvAttributes,
    avx2_qlinear_add,
    dequantize,
    dtype_name,
    qlinear_global_average_pool,
    quantize,
    requantization_multiplier,
    requantize,
    saturating_conv_accumulator,
    saturating_matmul_accumulator,
)


class _Images(CalibrationDataReader):
    def __init__(self, images: np.ndarray) -> None:
        self.batches: Iterator[dict[str, np.ndarray]] = iter([{"input": images}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.batches, None)


def _node_output(node: NodeProto, values: dict[str, np.ndarray]) -> np.ndarray:
    a: list[Any] = [values.get(name) for name in node.input]
    attributes = {x.name: helper.get_attribute_value(x) for x in node.attribute}
    match node.op_type:
        case "QuantizeLinear" | "DequantizeLinear":
            convert = quantize if node.op_type == "QuantizeLinear" else dequantize
            return convert(a[0], params(a[1], a[2]))
        case "QLinearConv":
            accumulator = saturating_conv_accumulator(
                a[0],
                a[3],
                x_zero_point=int(a[2]),
                w_zero_point=a[5],
                bias=a[8],
                attributes=ConvAttributes(
                    strides=tuple(attributes["strides"]), pads=tuple(attributes["pads"])
                ),
            )
            multiplier = requantization_multiplier(a[1], a[4], a[6])
            return requantize(accumulator, multiplier, int(a[7]), dtype_name(a[7].dtype))
        case "QLinearAdd":
            sides = [params(a[i], a[i + 1]) for i in (1, 4, 6)]
            return avx2_qlinear_add(a[0], sides[0], a[3], sides[1], sides[2])
        case "QLinearGlobalAveragePool":
            return qlinear_global_average_pool(a[0], params(a[1], a[2]), params(a[3], a[4]))
        case "Flatten":
            return a[0].reshape(len(a[0]), -1)
        case "QGemm":
            b = a[3].T if attributes.get("transB") else a[3]
            product = saturating_matmul_accumulator(a[0], b, a_zero_point=a[2], b_zero_point=a[5])
            multiplier = requantization_multiplier(a[1], a[4], a[7])
            return requantize(product + a[6], multiplier, int(a[8]), dtype_name(a[8].dtype))
    raise AssertionError(f"no {node.op_type} expected here")


def _outputs(model: ModelProto, images: np.ndarray, level: Any) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"input": images}), strict=True))


@needs_avx2_without_vnni
@pytest.mark.parametrize("activation", [QuantType.QUInt8, QuantType.QInt8])
def test_every_tensor_of_a_network_has_the_runtimes_integers(
    random_resnet8: Path, tmp_path: Path, activation: QuantType
) -> None:
    images = np.random.default_rng(3).integers(0, 256, (4, 3, 32, 32)).astype(np.float32)
    path = tmp_path / "quantized.onnx"
    quantize_static(
        random_resnet8,
        path,
        _Images(images),
        quant_format=QuantFormat.QOperator,
        activation_type=activation,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    model = onnx.load(path)
    (logits,) = (output.name for output in model.graph.output)
    levels = ort.GraphOptimizationLevel
    shipped = _outputs(model, images, levels.ORT_ENABLE_ALL)[logits]
    for node in model.graph.node[:-1]:
        model.graph.output.append(helper.make_empty_tensor_value_info(node.output[0]))
    expected = _outputs(model, images, levels.ORT_DISABLE_ALL)

    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    values["input"] = images
    for node in model.graph.node:
        (name,) = node.output
        values[name] = _node_output(node, values)
        np.testing.assert_array_equal(values[name], expected[name], err_msg=name)
    np.testing.assert_array_equal(values[logits], shipped)
    assert len(np.unique(values[logits])) > 10
