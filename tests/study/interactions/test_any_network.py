"""What layers cost together, in networks that are no classifiers or have several outputs."""

from pathlib import Path

import numpy as np
import pytest

from quantscope.data import Samples
from quantscope.report import interactions_lines, shapley_lines
from quantscope.study.interactions import interactions, shapley
from small_networks import feeds, quantized


def rows(name: str) -> Samples:
    parts = [feeds(name, 1, seed=seed) for seed in range(3)]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Samples.from_arrays(f"{name} rows", arrays)


@pytest.mark.parametrize("name", ["recurrent", "autoencoder", "bytes"])
def test_pairs_and_shares_need_no_labels_and_no_classes(name: str, tmp_path: Path) -> None:
    path = quantized(name, "qdq-uint8", tmp_path)
    pairs, shares = interactions(path, rows(name)), shapley(path, rows(name), 2)
    assert pairs.noise is not None and shares.noise is not None
    assert pairs.noise.value == pytest.approx(shares.noise.value)
    total = sum(share.noise.value for share in shares.shares if share.noise is not None)
    assert total == pytest.approx(shares.noise.value)
    assert pairs.measure != "SQNR of the outputs"
    assert "quantizing all of it: " in "\n".join(interactions_lines(pairs))
    assert "all of it" in "\n".join(shapley_lines(shares))
