"""Where branches of very different values meet, that is found and nothing else."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper
from planted import Plant, convnet_weights, examined, finished

from quantscope.edit import Off


def head(times: float) -> list[object]:
    """Give two convolutions of one input, the second's values so many times larger."""
    weights = convnet_weights()
    named = {
        "a.weight": weights["conv1.weight"],
        "a.bias": weights["conv1.bias"],
        "b.weight": weights["conv1.weight"][::-1] * times,
        "b.bias": weights["conv1.bias"] * times,
    }
    constants = [numpy_helper.from_array(np.float32(v), k) for k, v in named.items()]
    nodes = [
        helper.make_node("Conv", ["x", f"{n}.weight", f"{n}.bias"], [n], name=n, pads=[1] * 4)
        for n in "ab"
    ]
    return [nodes, constants]


@pytest.mark.parametrize("op", ["Concat", "Add"])
@pytest.mark.parametrize(("times", "found"), [(60, True), (3, False)])
def test_branches_of_very_different_values_are_found(
    op: str, times: float, found: bool, tmp_path: Path
) -> None:
    nodes, constants = head(times)
    axis = {"axis": 1} if op == "Concat" else {}
    nodes.append(helper.make_node(op, ["a", "b"], ["y"], name="both", **axis))
    planted = Plant(tmp_path).make(finished(nodes, constants, (3, 6, 7)))
    findings = examined(planted).findings
    assert [f.kind for f in findings] == ["branch-steps"] * found
    if found:
        (finding,) = findings
        (place,) = finding.places
        assert place.where == "a.out" and place.numbers["meets_at"] == "both"
        assert place.numbers["steps"] < 16
        assert Off("both.out") in finding.remedies[0].edits
