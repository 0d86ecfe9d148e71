"""Constants that are something else than the operators around them take."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tiny_onnx import constant, model, saved, value

from quantscope.errors import BadModelError
from quantscope.model import load_onnx, read_onnx
from quantscope.run import evaluate

node = helper.make_node


def gemm(**changed: onnx.TensorProto) -> onnx.ModelProto:
    """A quantized Gemm that runs, with some of its constants replaced."""
    constants = {
        "s": constant("s", 0.1, np.float32),
        "z": constant("z", 3, np.uint8),
        "w": constant("w", np.arange(12).reshape(2, 6), np.int8),
        "ws": constant("ws", 0.02, np.float32),
        "wz": constant("wz", 0, np.int8),
        "b": constant("b", [1, 2], np.int32),
        "bs": constant("bs", 0.002, np.float32),
        "bz": constant("bz", 0, np.int32),
    }
    return model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
            node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
            node("DequantizeLinear", ["b", "bs", "bz"], ["bd"]),
            node("Gemm", ["xd", "wd", "bd"], ["y"], name="gemm", transB=1),
        ],
        [*(constants | changed).values()],
        inputs=[value("x", ["N", 6])],
        outputs=[value("y", ["N", 2])],
    )


def refusal(proto: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(BadModelError) as caught:
        read_onnx(saved(proto, folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["s", "z", "w", "ws", "wz", "b", "bs", "bz"])
def test_texts_are_no_parameters(tmp_path: Path, name: str) -> None:
    text = numpy_helper.from_array(np.array([b"text"], object), name)
    assert f"takes numbers, but {name!r} holds text" in refusal(gemm(**{name: text}), tmp_path)


@pytest.mark.parametrize("name", ["s", "z", "ws", "wz", "bs", "bz"])
def test_nothing_is_no_scale(tmp_path: Path, name: str) -> None:
    empty = constant(name, [], np.float32)
    assert f"takes numbers, but {name!r} is empty" in refusal(gemm(**{name: empty}), tmp_path)


def test_nothing_can_be_quantized(tmp_path: Path) -> None:
    nothing = constant("nothing", np.zeros((0, 3)), np.int8)
    nodes = [node("DequantizeLinear", ["nothing", "s"], ["n"]), node("Relu", ["x"], ["y"])]
    assert read_onnx(saved(model(nodes, [nothing, constant("s", 0.1, np.float32)]), tmp_path))


def test_a_limit_that_is_text_is_refused(tmp_path: Path) -> None:
    proto = model(
        [
            node("Constant", [], ["low"], value_string=b"text"),
            node("Clip", ["x", "low"], ["y"], name="clip"),
        ]
    )
    assert "Node 'clip'" in refusal(proto, tmp_path)
    assert "'low' holds text" in refusal(proto, tmp_path)


def test_texts_where_texts_belong_are_read(tmp_path: Path) -> None:
    words = numpy_helper.from_array(np.array([b"a", b"b"], object), "words")
    proto = model([node("Identity", ["words"], ["t"]), node("Relu", ["x"], ["y"])], [words])
    assert read_onnx(saved(proto, tmp_path)).layers


@pytest.mark.parametrize("transposed", [-1, 2, 2**40])
def test_a_transpose_that_is_neither_yes_nor_no(tmp_path: Path, transposed: int) -> None:
    proto = gemm()
    del proto.graph.node[4].attribute[:]
    proto.graph.node[4].attribute.append(helper.make_attribute("transB", transposed))
    network = read_onnx(saved(proto, tmp_path))
    assert network.layer("gemm").op_type == "Gemm"


def test_weights_in_a_file_that_has_a_second_name_are_read(tmp_path: Path) -> None:
    """As tools that keep one copy of equal files make them; onnx's own loader refuses it."""
    proto = gemm()
    weight = next(t for t in proto.graph.initializer if t.name == "w")
    (tmp_path / "store").write_bytes(weight.raw_data)
    os.link(tmp_path / "store", tmp_path / "w.bin")
    whole = load_onnx(saved(proto, tmp_path, "whole.onnx")).load_proto()
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    path = saved(proto, tmp_path)
    assert load_onnx(path).load_proto() == whole
    np.savez(tmp_path / "d.npz", images=np.ones((2, 6), np.float32), labels=[0, 1])
    from quantscope.data import load

    assert evaluate(path, load(str(tmp_path / "d.npz"))).images == 2


def test_a_data_file_of_holes_is_told_before_it_is_read(tmp_path: Path) -> None:
    proto = gemm()
    weight = next(t for t in proto.graph.initializer if t.name == "w")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").touch()
    os.truncate(tmp_path / "w.bin", 8 * 2**30)
    assert "is almost all holes" in refusal(proto, tmp_path)


def test_nodes_in_no_order_run_as_if_they_were(tmp_path: Path) -> None:
    proto = gemm()
    ordered = list(load_onnx(saved(proto, tmp_path)).load_proto().graph.node)
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in proto.graph.node]
    proto.graph.ClearField("node")
    proto.graph.node.extend(nodes[::-1])
    found = list(load_onnx(saved(proto, tmp_path)).load_proto().graph.node)
    made: set[str] = set()
    for one in found:
        assert not {n for n in one.input if any(n in o.output for o in ordered)} - made
        made |= set(one.output)
    assert len(found) == len(ordered)
