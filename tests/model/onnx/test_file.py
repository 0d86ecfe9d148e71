"""Files are looked at before anything trusts them, and one line says what is wrong."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tiny_onnx import FLOAT, constant, conv_relu, model, saved, value, weights

from quantscope.errors import BadModelError
from quantscope.model.network import Port
from quantscope.model.onnx import ends_in_softmax, load_onnx


def refusal(path: Path) -> str:
    with pytest.raises(BadModelError) as caught:
        load_onnx(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    proto = conv_relu()
    helper.set_model_props(proto, {"made by": "a person"})
    path = saved(proto, tmp_path)
    file = load_onnx(path)
    assert file.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (file.opset, file.ir_version, file.format) == (21, 10, "float")
    assert file.inputs == (Port("x", "float32", ("N", 3, 5, 7)),)
    assert file.outputs == (Port("y", "float32", None),)
    assert file.metadata == {"made by": "a person"}
    assert file.op_counts == {"Conv": 1, "Relu": 1}


def test_the_whole_model_can_be_had(tmp_path: Path) -> None:
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [constant("w", weights(70, 40))],
        inputs=[value("x", [1, 70])],
    )
    file = load_onnx(saved(proto, tmp_path))
    assert file.load_proto() == proto
    assert file.hollow.ByteSize() < 500


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "There is no file"),
        (lambda path: path.mkdir(), "is a folder; give an .onnx file"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (
            lambda path: path.write_text("a letter\nof two lines"),
            "is not an ONNX model: it is text",
        ),
        (lambda path: path.write_bytes(bytes(range(255, 0, -1))), "starts with the bytes ff fe"),
        (
            lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50)),
            "but a zip archive, perhaps a Py",
        ),
        (lambda path: path.write_bytes(b"\x80\x02" + bytes(50)), "but a Python pickle"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n"), "perhaps a Keras model"),
        (lambda path: path.write_bytes(b"\x08\x0a"), "it holds no graph"),
        (lambda path: path.symlink_to(path), "no file|Cannot read"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    ],
)
def test_what_is_no_model_is_refused(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "m.onnx"
    make(path)
    assert re.search(said, refusal(path))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = conv_relu().SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        refusal(path)


def chain(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    return model(list(nodes))


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        (
            chain(helper.make_node("Relu", ["z"], ["y"], name="r")),
            "Node 'r' .* reads 'z', which noth",
        ),
        (chain(helper.make_node("Relu", ["x"], ["z"])), "The output 'y' .* is made by nothing"),
        (chain(), "holds no operators"),
        (
            chain(
                helper.make_node("Add", ["x", "b"], ["a"], name="one"),
                helper.make_node("Relu", ["a"], ["b"], name="two"),
                helper.make_node("Relu", ["b"], ["y"]),
            ),
            "runs in a circle through 'one', 'two', 2 .Relu.",
        ),
        (
            chain(helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])),
            "makes the tensor 'y' more than once, the second time in node 1 .Abs.",
        ),
        (
            chain(helper.make_node("Conv", ["x"], ["y"])),
            "is not valid ONNX: Node .* has input size 1",
        ),
        (chain(helper.make_node("Nonsense", ["x"], ["y"])), "is not valid ONNX: No Op registered"),
        (
            model([helper.make_node("Relu", ["x"], ["y"])], inputs=[value("x", [1, -4])]),
            "'x' .* negative dimension -4",
        ),
        (
            model([helper.make_node("Relu", ["x"], ["y"])], inputs=[value("x", [2**40, 2**40])]),
            "absurd shape",
        ),
    ],
)
def test_a_broken_graph_is_refused(tmp_path: Path, proto: onnx.ModelProto, said: str) -> None:
    assert re.search(said, refusal(saved(proto, tmp_path)))


def test_unsorted_nodes_are_read(tmp_path: Path) -> None:
    proto = conv_relu()
    nodes = list(reversed(proto.graph.node))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert load_onnx(saved(proto, tmp_path)).format == "float"


def test_an_unknown_domain_is_allowed(tmp_path: Path) -> None:
    proto = model([helper.make_node("Magic", ["x"], ["y"], domain="org.example")])
    proto.opset_import.append(helper.make_opsetid("org.example", 3))
    assert load_onnx(saved(proto, tmp_path)).opsets == {"": 21, "org.example": 3}


@pytest.mark.parametrize("opset", [0, 999])
def test_an_unknown_opset_is_refused(tmp_path: Path, opset: int) -> None:
    proto = conv_relu()
    proto.opset_import[0].version = opset
    assert f"is written for opset {opset}; the installed onnx" in refusal(saved(proto, tmp_path))


@pytest.mark.parametrize("length", [8, 4096])
def test_a_constant_must_have_all_its_bytes(tmp_path: Path, length: int) -> None:
    proto = conv_relu()
    proto.graph.initializer[0].raw_data = bytes(length)
    text = refusal(saved(proto, tmp_path))
    assert "'w'" in text
    assert f"{length}" in text


def external(folder: Path, location: str, *, length: int = 432, offset: int = 0) -> Path:
    proto = conv_relu()
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=str(text))
    return saved(proto, folder)


def test_external_data_beside_the_model_is_part_of_its_digest(tmp_path: Path) -> None:
    data = tmp_path / "weights.bin"
    data.write_bytes(bytes(432))
    before = load_onnx(external(tmp_path, "weights.bin"))
    data.write_bytes(bytes(431) + b"\1")
    after = load_onnx(before.path)
    assert before.external_files == (data,)
    assert before.digest != after.digest


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", ""])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(432))
    folder = tmp_path / "model"
    folder.mkdir()
    assert "outside its own folder; put the data file beside" in refusal(external(folder, location))


def test_external_data_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(432))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "loop").symlink_to(folder / "loop")
    assert "outside its own folder" in refusal(external(folder, "w.bin"))
    refusal(external(folder, "loop"))


@pytest.mark.parametrize(
    ("size", "offset", "length", "said"),
    [
        (None, 0, 432, "'w.bin', which is missing"),
        (432, 8, 432, "needs 432 bytes"),
        (432, -8, 432, "needs 432 bytes"),
        (432, 0, 400, "needs 432 bytes, but its place in 'w.bin' holds 400"),
    ],
)
def test_external_data_must_be_there(
    tmp_path: Path, size: int | None, offset: int, length: int, said: str
) -> None:
    if size is not None:
        (tmp_path / "w.bin").write_bytes(bytes(size))
    assert said in refusal(external(tmp_path, "w.bin", offset=offset, length=length))


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    content = conv_relu().SerializeToString().replace(b"relu", b"\xff\xfe\xfd\xfc")
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert "not valid text" in refusal(path)


def test_a_subgraph_may_read_from_outside(tmp_path: Path) -> None:
    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [value(op, [2])])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Abs")
    )
    inputs = [value("x", [2]), value("c", [], onnx.TensorProto.BOOL)]
    assert load_onnx(saved(model([node], inputs=inputs), tmp_path)).op_counts == {"If": 1}
    node.attribute[0].g.node[0].input[0] = "nowhere"
    assert "'nowhere'" in refusal(saved(model([node], inputs=inputs), tmp_path))


def test_an_old_model_may_list_its_weights_among_its_inputs(tmp_path: Path) -> None:
    proto = conv_relu()
    proto.ir_version = 3
    proto.graph.input.extend([value("w", [4, 3, 3, 3]), value("b", [4])])
    assert [spec.name for spec in load_onnx(saved(proto, tmp_path)).inputs] == ["x"]


def test_softmax_is_seen_through_quantizers(tmp_path: Path) -> None:
    assert not ends_in_softmax(load_onnx(saved(conv_relu(), tmp_path)))
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "scale"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["d"]),
        helper.make_node("Identity", ["d"], ["y"]),
    ]
    proto = model(nodes, [constant("scale", 1 / 256, np.float32)])
    assert ends_in_softmax(load_onnx(saved(proto, tmp_path)))


def test_large_constants_of_nodes_stay_in_the_file_too(tmp_path: Path) -> None:
    big = constant("", weights(30, 30))
    node = helper.make_node("Constant", [], ["w"], value=big)
    proto = model(
        [node, helper.make_node("MatMul", ["x", "w"], ["y"])], inputs=[value("x", [2, 30], FLOAT)]
    )
    assert load_onnx(saved(proto, tmp_path)).hollow.ByteSize() < 500


def test_scales_by_channel_before_opset_13_are_refused_with_the_reason(tmp_path: Path) -> None:
    scale, zero = constant("s", np.ones(2, np.float32)), constant("z", np.zeros(2, np.int8))
    proto = model(
        [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["y"], axis=0)],
        [constant("w", np.ones((2, 3), np.int8)), scale, zero],
    )
    proto.opset_import[0].version = 11
    text = refusal(saved(proto, tmp_path))
    assert "is not valid ONNX: Unrecognized attribute: axis" in text
    assert text.endswith("; scales by channel need opset 13: convert or export it for that")
