"""One scale for channels that differ widely: what is proposed, and where."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from planted import Plant, convnet, convnet_weights, examined, finished, rows


def spread_layers() -> onnx.ModelProto:
    """x[4] -> Gemm -> ReLU -> Gemm: the channels between differ by a factor of 400."""
    rng = np.random.default_rng(5)
    spread = np.geomspace(0.05, 20, 7)
    constants = {
        "w1": rng.uniform(-1, 1, (7, 4)) * spread[:, None],
        "b1": rng.uniform(-0.2, 0.2, 7) * spread,
        "w2": rng.uniform(-1, 1, (3, 7)) / spread,
        "b2": rng.uniform(-0.2, 0.2, 3),
    }
    stored = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], name="first", transB=1),
        helper.make_node("Relu", ["a"], ["h"], name="relu"),
        helper.make_node("Gemm", ["h", "w2", "b2"], ["y"], name="second", transB=1),
    ]
    return finished(nodes, stored, (4,))


def test_balancing_the_channels_is_proposed_and_helps(tmp_path: Path) -> None:
    samples, calibration = (rows(80, seed=seed, shape=(4,)) for seed in (1, 2))
    planted = Plant(tmp_path).make(
        spread_layers(), samples=samples, calibration=calibration, per_channel=False
    )
    found = {finding.kind: finding for finding in examined(planted, tries=True).findings}
    attempts = {each.remedy.cure: each for each in found["channel-spread"].attempts}
    gain = attempts["equalization"].gain
    assert gain is not None and gain.sqnr_change_db is not None
    assert gain.sqnr_change_db > 10


def test_without_a_neighbour_that_takes_it_nothing_is_balanced(tmp_path: Path) -> None:
    weights = convnet_weights()
    weights["conv2.weight"][3] *= 60
    weights["conv2.weight"] /= 20
    weights["conv2.bias"] /= 20
    planted = Plant(tmp_path).make(convnet(weights), per_channel=False)
    (finding,) = examined(planted).findings
    assert [remedy.options for remedy in finding.remedies] == [{"per_channel": True}]
