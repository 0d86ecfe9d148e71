"""Where branches meet, the finer one loses what is below the output's step."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tiny_onnx import constant, model, saved

from quantscope.model import Residual, read_onnx, residuals

F, U8 = np.float32, np.uint8
node = helper.make_node


def pair(name: str, scale: str) -> list[onnx.NodeProto]:
    return [
        node("QuantizeLinear", [name, scale, "z"], [f"{name}_q"]),
        node("DequantizeLinear", [f"{name}_q", scale, "z"], [f"{name}_d"]),
    ]


def joined(
    folder: Path,
    *nodes: onnx.NodeProto,
    out: str | None,
    out_step: float = 0.4,
    skips_weights: bool = True,
) -> tuple[Residual, ...]:
    """Branches `a_d` in steps of 0.1 and `b_d` in steps of 0.3, joined by the nodes."""
    scales = {"sa": 0.1, "sb": 0.3, "so": out_step}
    stored = [constant(name, scale, F) for name, scale in scales.items()]
    stored += [constant("z", 128, U8), constant("k", np.ones((1, 3, 5, 7)), F)]
    stored += [constant("w", np.ones((3, 3, 1, 1)), F)]
    after = node("Conv", ["x", "w"], ["b"]) if skips_weights else node("Sin", ["x"], ["b"])
    after.name = "b"
    before = [node("Tanh", ["x"], ["a"], name="a"), after]
    tail = [*pair(out, "so"), node("Identity", [f"{out}_d"], ["y"])] if out else []
    path = saved(
        model([*before, *pair("a", "sa"), *pair("b", "sb"), *nodes, *tail], stored), folder
    )
    return residuals(read_onnx(path))


def test_the_finer_branch_loses_log2_of_the_steps(tmp_path: Path) -> None:
    (found,) = joined(tmp_path, node("Add", ["a_d", "b_d"], ["o"], name="sum"), out="o")
    assert (found.layer, found.output, found.smaller.tensor) == ("sum", "sum.out", "a.out")
    assert found.ratio == pytest.approx(3)
    assert found.ratio_bits == pytest.approx(np.log2(3))
    assert [branch.bits_lost for branch in found.branches] == pytest.approx([2, np.log2(4 / 3)])
    assert [branch.effective_bits for branch in found.branches] == pytest.approx(
        [6, 8 - np.log2(4 / 3)]
    )


def test_a_finer_output_loses_nothing(tmp_path: Path) -> None:
    nodes = node("Concat", ["a_d", "b_d"], ["o"], name="cat", axis=1)
    (found,) = joined(tmp_path, nodes, out="o", out_step=0.05)
    assert [branch.bits_lost for branch in found.branches] == [0, 0]


def test_the_output_may_be_quantized_after_its_relu(tmp_path: Path) -> None:
    nodes = [
        node("Add", ["a_d", "b_d"], ["t"], name="sum"),
        node("Relu", ["t"], ["o"], name="relu"),
    ]
    (found,) = joined(tmp_path, *nodes, out="o")
    assert (found.output, found.branches[0].bits_lost) == ("relu.out", pytest.approx(2))


def test_without_a_quantized_output_the_ratio_is_all_there_is(tmp_path: Path) -> None:
    (found,) = joined(tmp_path, node("Sub", ["a_d", "b_d"], ["y"], name="diff"), out=None)
    assert found.ratio == pytest.approx(3)
    assert (found.output, found.output_step, found.branches[0].bits_lost) == (None, None, None)


def test_adding_a_constant_joins_no_branches(tmp_path: Path) -> None:
    assert joined(tmp_path, node("Add", ["a_d", "k"], ["o"], name="shift"), out="o") == ()


def test_branches_without_weights_are_one_function_written_out(tmp_path: Path) -> None:
    add = node("Add", ["a_d", "b_d"], ["o"], name="sum")
    assert joined(tmp_path, add, out="o", skips_weights=False) == ()
