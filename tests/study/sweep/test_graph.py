"""Variants in one graph: each gives what it gives alone, and what they share is there once."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from quantscope.edit import Editor, Off
from quantscope.run.onnx.sessions import session_of
from quantscope.run.onnx.suffix.graph import value_graph
from quantscope.study.sweep import graph as sweep_graph
from quantscope.study.sweep.graph import SharedGraph

FLOAT = onnx.TensorProto.FLOAT
ROWS = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)


def model(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], *, opset: int = 17
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def scaled(factor: float, *, opset: int = 17) -> onnx.ModelProto:
    """Exp of x, times a factor, plus the same Exp once more under another name."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Exp", ["x"], ["twin"]),
        helper.make_node("Mul", ["e", "factor"], ["m"]),
        helper.make_node("Add", ["m", "twin"], ["y"]),
        helper.make_node("Neg", ["m"], ["read_by_none"]),
    ]
    return model(nodes, {"factor": np.float32(factor)}, opset=opset)


def shared(*variants: onnx.ModelProto) -> SharedGraph:
    graphs = [value_graph(variant) for variant in variants]
    merged = SharedGraph(graphs[0])
    for place, graph in enumerate(graphs):
        assert merged.takes(graph)
        merged.add(str(place), graph)
    return merged


def check_each_gives_what_it_gives_alone(*variants: onnx.ModelProto) -> None:
    merged = shared(*variants)
    session = session_of(merged.model(), "reference")
    for place, variant in enumerate(variants):
        found = session.run(merged.outputs[str(place)], {merged.inputs[0]: ROWS})[0]
        alone = session_of(variant, "reference").run(["y"], {"x": ROWS})[0]
        np.testing.assert_array_equal(found, alone)


def operators(merged: SharedGraph) -> Counter[str]:
    return Counter(node.op_type for node in merged.model().graph.node)


def test_what_two_variants_share_is_there_once() -> None:
    variants = scaled(2), scaled(3)
    assert operators(shared(*variants)) == {"Exp": 1, "Mul": 2, "Add": 2}
    check_each_gives_what_it_gives_alone(*variants)


def test_variants_that_compute_the_same_have_one_output() -> None:
    merged = shared(scaled(2), scaled(2), scaled(3))
    assert merged.outputs["0"] == merged.outputs["1"] != merged.outputs["2"]
    assert len(merged.model().graph.output) == 2


def test_models_are_not_changed() -> None:
    variant = scaled(2)
    before = variant.SerializeToString(deterministic=True)
    shared(variant, scaled(3)).model()
    assert variant.SerializeToString(deterministic=True) == before


def conditional(factor: float) -> onnx.ModelProto:
    """Both branches read a value from outside; one has a value of its own of an outer's name."""

    def branch(op: str, inner: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node(op, ["m", "m"], [inner]),
            helper.make_node("Identity", [inner], ["out"]),
        ]
        return helper.make_graph(nodes, op, [], [helper.make_tensor_value_info("out", FLOAT, None)])

    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["m"]),
        helper.make_node(
            "If", ["flag"], ["y"], then_branch=branch("Add", "a"), else_branch=branch("Mul", "b")
        ),
    ]
    return model(nodes, {"factor": np.float32(factor), "flag": np.array(factor > 2)})


def test_a_branch_takes_its_values_from_its_own_variant() -> None:
    check_each_gives_what_it_gives_alone(conditional(2), conditional(3), conditional(2.5))


def two_ended(factor: float, *, first: str = "x") -> onnx.ModelProto:
    """Two inputs of two types, in either order, and two outputs; the factor reaches one of them."""
    ports = {"x": (FLOAT, ["N", 3]), "ids": (onnx.TensorProto.INT64, ["N", 1])}
    names = sorted(ports, key=lambda name: name != first)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node("Squeeze", ["rows", "axis"], ["row"]),
            helper.make_node("Add", ["row", "x"], ["sum"]),
            helper.make_node("Mul", ["sum", "factor"], ["y"]),
        ],
        "two ends",
        [helper.make_tensor_value_info(name, *ports[name]) for name in names],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("sum", "y")],
        [
            numpy_helper.from_array(np.arange(15, dtype=np.float32).reshape(5, 3), "table"),
            numpy_helper.from_array(np.array([1]), "axis"),
            numpy_helper.from_array(np.float32(factor), "factor"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_variants_have_all_their_inputs_and_outputs() -> None:
    merged = shared(two_ended(2), two_ended(3))
    assert operators(merged) == {"Gather": 1, "Squeeze": 1, "Add": 1, "Mul": 2}
    (shared_sum, y), (same_sum, other_y) = merged.outputs.values()
    assert shared_sum == same_sum and y != other_y
    feeds = dict(zip(merged.inputs, (ROWS, np.array([[0], [4], [2], [1]])), strict=True))
    session = session_of(merged.model(), "reference")
    own = dict(zip(("x", "ids"), feeds.values(), strict=True))
    for place, variant in enumerate((two_ended(2), two_ended(3))):
        alone = session_of(variant, "reference").run(["sum", "y"], own)
        found = session.run(merged.outputs[str(place)], feeds)
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def test_inputs_in_another_order_need_another_graph() -> None:
    assert not shared(two_ended(2)).takes(value_graph(two_ended(3, first="ids")))


def test_another_opset_needs_another_graph() -> None:
    assert not shared(scaled(2)).takes(value_graph(scaled(3, opset=13)))


def test_a_full_graph_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    merged = shared(scaled(2))
    assert merged.takes(value_graph(scaled(3)))
    monkeypatch.setattr(sweep_graph, "MOST_NODES", 6)
    assert not merged.takes(value_graph(scaled(3)))
    monkeypatch.undo()
    monkeypatch.setattr(sweep_graph, "MOST_BYTES", 100)
    assert not merged.takes(value_graph(scaled(3)))


def test_a_switched_layer_runs_nothing_before_it() -> None:
    editor = Editor("resnet8-int8")
    base = operators(shared(editor.base))
    off = {name: editor.apply([Off(name)]).proto for name in ("stem", "stack2.shortcut", "head")}
    added = {n: operators(shared(editor.base, proto)) - base for n, proto in off.items()}
    assert added["stem"]["Conv"] == base["Conv"]
    # The shortcut itself, and the three convolutions of the last stack: not its own main branch.
    assert added["stack2.shortcut"]["Conv"] == 4
    assert (added["head"]["Conv"], added["head"]["Gemm"]) == (0, 1)
