"""A loss that sits in one class is found, one that is spread over all is not."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from planted import Plant, constant, examined, finished, rewritten, set_constant

from quantscope.data import Samples

CLASSES, FEATURES = 6, 12


def samples(weight: np.ndarray, count: int, *, seed: int) -> Samples:
    """Make rows with the classes that the float network gives them: it has them all right."""
    rows = np.random.default_rng(seed).uniform(-1, 1, (count, FEATURES)).astype(np.float32)
    return Samples.from_arrays(f"rows {seed}", {"x": rows}, labels=(rows @ weight).argmax(axis=1))


@pytest.mark.parametrize(("halved", "found"), [([2], [(2,)]), ([0, 1, 2, 3, 4], [])])
def test_a_class_that_holds_the_loss_is_named(
    halved: list[int], found: list[tuple[int, ...]], tmp_path: Path
) -> None:
    weight = np.random.default_rng(3).uniform(-1, 1, (FEATURES, CLASSES)).astype(np.float32)
    network = finished(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="head")],
        [numpy_helper.from_array(weight, "w")],
        (FEATURES,),
    )

    def halve(proto: onnx.ModelProto) -> None:
        integers = np.array(constant(proto, "w_quantized"))
        integers[:, halved] //= 2
        set_constant(proto, "w_quantized", integers)

    planted = Plant(tmp_path).make(
        network,
        samples=samples(weight, 600, seed=1),
        calibration=samples(weight, 64, seed=2),
        change=rewritten(halve),
    )
    result = examined(planted)
    assert result.account.loss.helps
    assert [finding.labels for finding in result.findings] == found
    if found:
        (finding,) = result.findings
        assert finding.kind == "one-class" and finding.cost is not None
        assert finding.cost.value == pytest.approx(finding.places[0].numbers["lost"] / 600)
