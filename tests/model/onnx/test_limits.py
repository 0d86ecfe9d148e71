"""Models that want too much are told so before anything runs, and can still be looked at."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tiny_onnx import constant, conv_relu, model, saved, value

from quantscope.data import Intake
from quantscope.errors import BadModelError
from quantscope.files import memory
from quantscope.model import load_onnx, open_model
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run.onnx.sessions import open_session

BOOL, INT64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64


def padded(by: int) -> onnx.ModelProto:
    """A value of `by` x `by` in one channel."""
    return model(
        [helper.make_node("Pad", ["x", "pads"], ["big"]), helper.make_node("Relu", ["big"], ["y"])],
        [constant("pads", [0, 0, 0, 0, 0, 0, by - 1, by - 1], np.int64)],
        inputs=[value("x", ["N", 1, 1, 1])],
    )


def looped(turns: int | None, *, ends: bool = False) -> onnx.ModelProto:
    goes_on = (
        helper.make_node("Less", ["i", "ten"], ["on"])
        if ends
        else helper.make_node("Identity", ["go"], ["on"])
    )
    body = helper.make_graph(
        [goes_on, helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [value("i", [], INT64), value("go", [], BOOL), value("v", None)],
        [value("on", [], BOOL), value("w", None)],
    )
    names = ["" if turns is None else "turns", "yes", "x"]
    return model(
        [helper.make_node("Loop", names, ["y"], name="again", body=body)],
        [
            constant("turns", turns or 0, np.int64),
            constant("ten", 10, np.int64),
            constant("yes", True, bool),
        ],
    )


def refusal(proto: onnx.ModelProto, folder: Path) -> str:
    opened = open_model(saved(proto, folder)).as_onnx("the test")
    assert opened.network.layers
    texts = set()
    for run in (opened.file.load_proto, lambda: open_session(opened, "runtime")):
        with pytest.raises(BadModelError) as caught:
            run()
        texts.add(str(caught.value))
    (text,) = texts
    return text


@pytest.mark.parametrize(("by", "size"), [(20_000, "1.6 GB"), (2**31, "18,446,744,073.7 GB")])
def test_a_value_that_fits_no_memory_is_not_computed(tmp_path: Path, by: int, size: str) -> None:
    assert refusal(padded(by), tmp_path) == (
        f"tiny.onnx is not run: its value 'big' (Pad) takes {size} for one image; "
        f"at most 1.1 GB are run"
    )


def test_a_large_value_that_fits_is_computed(tmp_path: Path) -> None:
    opened = open_model(saved(padded(1000), tmp_path)).as_onnx("the test")
    session = open_session(opened, "runtime")
    (found,) = session.run(None, {"x": np.ones((1, 1, 1, 1), np.float32)})
    assert found.shape == (1, 1, 1000, 1000)


def test_a_loop_without_an_end_is_not_begun(tmp_path: Path) -> None:
    said = "tiny.onnx is not run: a loop in it repeats "
    assert refusal(looped(2**62), tmp_path) == f"{said}{2**62:,} times"
    assert refusal(looped(None), tmp_path) == f"{said}without an end"


def test_loops_are_found_wherever_they_are(tmp_path: Path) -> None:
    plain = looped(2**62)
    loop = plain.graph.node[0]
    said = f"tiny.onnx is not run: a loop in it repeats {2**62:,} times"

    def with_nodes(nodes: list[onnx.NodeProto], **more: object) -> onnx.ModelProto:
        return model(nodes, [*plain.graph.initializer][1:], **more)

    number = helper.make_node("Constant", [], ["turns"], value_int=2**62)
    assert refusal(with_nodes([number, loop]), tmp_path) == said

    other = helper.make_node("Constant", [], ["n"], value_int=2**62)
    passed = helper.make_node("Identity", ["n"], ["turns"])
    assert refusal(with_nodes([other, passed, loop]), tmp_path) == said

    branch = helper.make_graph([number, loop], "branch", [], [value("y", None)])
    inside = helper.make_node("If", ["yes"], ["z"], then_branch=branch, else_branch=branch)
    ending = helper.make_node("Relu", ["z"], ["end"])
    proto = with_nodes([inside, ending], outputs=[value("end", None)])
    assert refusal(proto, tmp_path) == said


def function(name: str, *calls: str) -> onnx.FunctionProto:
    """A function that calls others, one after the other."""
    names = ["a", *(f"v{number}" for number in range(len(calls) - 1)), "b"]
    nodes = [
        helper.make_node(op, [one], [two], domain="" if op == "Relu" else "own")
        for op, one, two in zip(calls, names[:-1], names[1:], strict=True)
    ]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, opsets)


def calling(name: str, functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    proto = model([helper.make_node(name, ["x"], ["y"], domain="own")], functions=functions)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def test_functions_that_unfold_without_measure_are_not_read(tmp_path: Path) -> None:
    doubling = [function("f0", "Relu")]
    doubling += [function(f"f{n}", f"f{n - 1}", f"f{n - 1}") for n in range(1, 31)]
    with pytest.raises(BadModelError, match="its functions unfold to 3,221,225,471 operators"):
        load_onnx(saved(calling("f30", doubling), tmp_path))
    circle = [function("f", "g"), function("g", "f")]
    with pytest.raises(BadModelError, match="its functions unfold without an end"):
        load_onnx(saved(calling("f", circle), tmp_path))
    load_onnx(saved(calling("f3", doubling[:4]), tmp_path)).check_affordable()


def test_loops_that_end_are_run(tmp_path: Path) -> None:
    for proto in (looped(3), looped(2**62, ends=True), looped(None, ends=True)):
        load_onnx(saved(proto, tmp_path)).load_proto()


def test_quantize_refuses_them_before_it_optimizes(tmp_path: Path) -> None:
    path = saved(looped(2**62), tmp_path)
    with pytest.raises(BadModelError, match="a loop in it repeats"):
        quantize_onnx(path, tmp_path / "q.onnx", PtqConfig())


def test_a_model_that_does_not_fit_into_memory_is_told_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = load_onnx(saved(conv_relu(), tmp_path))
    file.check_affordable()
    monkeypatch.setattr(memory, "free_memory", lambda: 500)
    with pytest.raises(BadModelError) as caught:
        file.check_affordable()
    assert str(caught.value) == (
        "Running tiny.onnx would take 0.0 GB, and 0.0 GB of memory are left; close other "
        "programs, or take a machine with more"
    )


def test_a_batch_that_nobody_runs_is_refused(tmp_path: Path) -> None:
    proto = conv_relu()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**20
    with pytest.raises(BadModelError, match="takes 1,048,576 rows at once"):
        Intake.of(open_model(saved(proto, tmp_path)))
