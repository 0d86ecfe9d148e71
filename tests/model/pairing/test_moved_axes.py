"""Attention as exporters write it: optimizers move its Transposes and compute its sizes."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from quantscope.data import Samples
from quantscope.model import open_model
from quantscope.model.pairing import pair_models
from quantscope.run.compare import Comparison, compare

TOKENS, WIDTH, HEADS = 7, 12, 3
ROWS = np.random.default_rng(3).normal(0, 1, (4, TOKENS, WIDTH)).astype(np.float32)


class Rows(CalibrationDataReader):
    def __init__(self) -> None:
        self._rest = iter({"x": row[None]} for row in ROWS)

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[override]
        return next(self._rest, None)


def attention(*, halves: bool = False, is_open: bool = False) -> onnx.ModelProto:
    """One projection to queries, keys and values, whose parts are cut out of turned axes.

    The factor is computed from the shape. With `halves` what comes out is cut in two at a computed
    place, and the second half goes first. With `is_open` the number of tokens is open, and sizes
    are computed, so that not even ranks are known behind a Reshape.
    """
    rng = np.random.default_rng(1)
    stored = {
        "qkv": rng.normal(0, 0.3, (WIDTH, 3 * WIDTH)).astype(np.float32),
        "shift": np.zeros(3 * WIDTH, np.float32),
        "out": rng.normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32),
        "apart": np.array([1, TOKENS, 3, HEADS, WIDTH // HEADS]),
        "together": np.array([1, TOKENS, WIDTH]),
        "each": np.array([1, 1, 1]),
        "first": np.array([0]),
        "last": np.array([2]),
        "end": np.array([2**31 - 1]),
        "two": np.array([2]),
        "four": np.array(3),
        "unit": np.array([1]),
        "three": np.array([3]),
        "apart_0": np.array([1]),
        "apart_2": np.array([3, HEADS, WIDTH // HEADS]),
        "together_2": np.array([WIDTH]),
    }
    node = helper.make_node
    parts = [node("Split", ["turned", "each"], ["q5", "k5", "v5"], axis=0)]
    if is_open:
        del stored["apart"], stored["together"]
        parts = [
            node("Slice", ["turned", start, end, "first"], [f"{x}5"])
            for x, start, end in (
                ("q", "first", "unit"),
                ("k", "unit", "last"),
                ("v", "last", "three"),
            )
        ]
    nodes = [
        node("MatMul", ["x", "qkv"], ["product"]),
        node("Add", ["product", "shift"], ["shifted"]),
        node("Reshape", ["shifted", "apart"], ["five"]),
        node("Transpose", ["five"], ["turned"], perm=[2, 0, 3, 1, 4]),
        *parts,
        *(node("Squeeze", [f"{x}5", "first"], [x]) for x in ("q", "k", "v")),
        node("Shape", ["q"], ["sizes"]),
        node("Gather", ["sizes", "four"], ["size"]),
        node("Cast", ["size"], ["real"], to=onnx.TensorProto.FLOAT),
        node("Sqrt", ["real"], ["root"]),
        node("Div", ["q", "root"], ["scaled"]),
        node("Transpose", ["k"], ["k_turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["scaled", "k_turned"], ["scores"]),
        node("Softmax", ["scores"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "together"], ["flat"]),
        node("MatMul", ["flat", "out"], ["end_of_it" if halves else "y"]),
    ]
    if halves:
        nodes += [
            node("Shape", ["end_of_it"], ["whole"]),
            node("Gather", ["whole", "last"], ["width"]),
            node("Div", ["width", "two"], ["half"]),
            node("Slice", ["end_of_it", "first", "half", "last"], ["one"]),
            node("Slice", ["end_of_it", "half", "end", "last"], ["other"]),
            node("Concat", ["other", "one"], ["y"], axis=2),
        ]
    if is_open:
        nodes = [
            node("Shape", ["x"], ["all"]),
            # How many sizes a Compress keeps is not known, nor what rank they are the shape of.
            node("Greater", ["all", "first"], ["is_some"]),
            node("Compress", ["all", "is_some"], ["same"]),
            node("Slice", ["same", "unit", "last", "first"], ["tokens"]),
            node("Concat", ["apart_0", "tokens", "apart_2"], ["apart"], axis=0),
            node("Concat", ["apart_0", "tokens", "together_2"], ["together"], axis=0),
            *nodes,
        ]
    shape = [1, "tokens" if is_open else TOKENS, WIDTH]
    ends = [helper.make_tensor_value_info(name, 1, shape) for name in ("x", "y")]
    constants = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "attention", ends[:1], ends[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(made, full_check=True)
    return made


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def compared(folder: Path, quant_format: QuantFormat, model: onnx.ModelProto) -> Comparison:
    floats, prepared, made = (folder / f"{name}.onnx" for name in ("float", "prepared", "made"))
    onnx.save(model, floats)
    quant_pre_process(str(floats), str(prepared), skip_symbolic_shape=True)
    wide = {"activation_type": QuantType.QUInt16, "weight_type": QuantType.QInt16}
    narrow = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    chosen = wide if quant_format is QuantFormat.QDQ else narrow
    quantize_static(prepared, made, Rows(), quant_format=quant_format, **chosen)
    return compare(made, Samples.from_arrays("rows", {"x": ROWS}), float_model=floats)


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("quant_format", list(QuantFormat))
def test_every_tensor_is_paired_and_near_its_counterpart(
    tmp_path: Path, quant_format: QuantFormat, halves: bool
) -> None:
    """In 16 bits hardly anything is lost, so a wrong pair cannot hide behind rounding."""
    found = compared(tmp_path, quant_format, attention(halves=halves))
    assert not found.unpaired and not found.unseen
    least = 60 if quant_format is QuantFormat.QDQ else 20
    for tensor in found.activations:
        assert tensor.sqnr_db is not None and tensor.sqnr_db > least, tensor.name
        if tensor.sources is None:
            assert quant_format is QuantFormat.QOperator, tensor.no_sources
        else:
            assert tensor.sources.total == pytest.approx(1, abs=1e-4)


def test_a_tensor_with_turned_axes_says_in_which_order_they_are(tmp_path: Path) -> None:
    compared(tmp_path, QuantFormat.QDQ, attention())
    models = [open_model(tmp_path / f"{name}.onnx") for name in ("float", "made")]
    turned = [pair for pair in pair_models(*models).pairs if pair.order]
    assert turned
    for pair in turned:
        shape = models[1].network.tensor(pair.name).shape
        assert shape is not None and len(shape) == len(pair.order)


def test_axes_that_a_squeeze_takes_out_are_followed_where_no_size_is_known(tmp_path: Path) -> None:
    found = compared(tmp_path, QuantFormat.QDQ, attention(is_open=True))
    assert not found.unpaired and not found.unseen
    assert min(tensor.sqnr_db or 0 for tensor in found.activations) > 60
    models = [open_model(tmp_path / f"{name}.onnx") for name in ("float", "made")]
    turned = [pair for pair in pair_models(*models).pairs if pair.order]
    unknown = [pair for pair in turned if models[1].network.tensor(pair.name).shape is None]
    assert {len(pair.order) for pair in unknown} == {4, 5}
