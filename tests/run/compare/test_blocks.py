"""Each block of a weight has a scale of its own, and an error of its own."""

import logging

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from quantscope.data import Samples
from quantscope.report.compare.text import channel_lines
from quantscope.run.compare import BlockErrors, Comparison, compare

INPUTS, OUTPUTS, BLOCK = 72, 5, 16  # the last block is half full
RNG = np.random.default_rng(4)
WEIGHT = RNG.normal(0, 0.2, (INPUTS, OUTPUTS)).astype(np.float32)
WEIGHT[35, 3] = 20  # one large value costs its own block, and no other, nearly everything


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("blocks")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    ends = [
        helper.make_tensor_value_info(name, 1, ["N", size])
        for name, size in (("x", INPUTS), ("y", OUTPUTS))
    ]
    stored = [numpy_helper.from_array(WEIGHT, "w")]
    graph = helper.make_graph([node], "one product", ends[:1], ends[1:], stored)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "float.onnx")
    logging.disable(logging.WARNING)
    made = MatMulNBitsQuantizer(
        onnx.load(folder / "float.onnx"), block_size=BLOCK, is_symmetric=True
    )
    made.process()
    made.model.save_model_to_file(str(folder / "blocks.onnx"))
    logging.disable(logging.NOTSET)
    rows = Samples.from_arrays("rows", {"x": RNG.normal(0, 1, (3, INPUTS)).astype(np.float32)})
    return compare(folder / "blocks.onnx", rows, float_model=folder / "float.onnx")


def found_of(compared: Comparison) -> BlockErrors:
    found = compared["fc.weight"].blocks
    assert found is not None
    return found


def test_the_error_of_each_block_is_that_of_plain_numpy(compared: Comparison) -> None:
    """Onnxruntime's quantizer gives each block 16 steps, and the signed largest value -8."""
    found = found_of(compared)
    assert found.sqnr_db.shape == (OUTPUTS, 5)
    for channel, block in np.ndindex(OUTPUTS, 5):
        values = WEIGHT[block * BLOCK : (block + 1) * BLOCK, channel].astype(np.float64)
        scale = values[np.abs(values).argmax()] / -8
        rounded = np.clip(np.floor(values / scale + 8.5), 0, 15) - 8
        error = rounded * scale - values
        sqnr = 10 * np.log10((values**2).sum() / (error**2).sum())
        one = found.at(channel, block)
        assert one.sqnr_db == pytest.approx(sqnr, abs=1e-3)
        rmse = np.sqrt((error**2).mean()) / abs(scale)
        assert one.rmse_steps == pytest.approx(rmse, rel=1e-4)


def test_the_blocks_of_most_error_are_named(compared: Comparison) -> None:
    found, tensor = found_of(compared), compared["fc.weight"]
    lowest = np.unravel_index(np.nanargmin(found.sqnr_db), found.sqnr_db.shape)
    assert (found.worst[0].channel, found.worst[0].block) == lowest
    lines = [line.split() for line in channel_lines(compared, tensor)]
    assert [str(lowest[0]), str(lowest[1])] in [line[:2] for line in lines]
    given = tensor.to_dict()
    assert given["block_count"] == 25 and len(given["worst_blocks"]) == 3
    assert "blocks" not in given and len(tensor.to_dict(channels=True)["blocks"]) == 25
