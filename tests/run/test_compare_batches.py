"""How images come in batches is nowhere to be seen in a comparison."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_nets import Residual, residual
from tiny_qdq import images_of

from quantscope.run import compare_scores, compare_statistics
from quantscope.run.compare import compare
from quantscope.run.compare_results import Comparison

Array = np.ndarray[Any, Any]

SOURCES = ("inherited", "weights", "rounding", "clipping")
RNG = np.random.default_rng(5)
MANY = RNG.normal(0, 1, (600, 3, 5, 7)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


def compared(net: Residual, folder: Path, pictures: Array, batch: int) -> Comparison:
    model, original = net.save_quantized(folder), net.save_float(folder)
    return compare(model, images_of(pictures), float_model=original, batch=batch)


@pytest.mark.parametrize("end", ["clipped_low_fraction", "clipped_high_fraction"])
def test_what_is_clipped_in_one_batch_alone_is_counted(
    end: str, net: Residual, tmp_path: Path
) -> None:
    pictures = 0.05 * MANY[:9]
    pictures[5] = 8 * np.abs(MANY[5]) * (-1 if "low" in end else 1)
    apart, together = (compared(net, tmp_path, pictures, batch) for batch in (1, 9))
    cut = pictures[5] < -3.6 if "low" in end else pictures[5] > 4.05
    assert getattr(apart["x"], end) == pytest.approx(cut.sum() / pictures.size)
    for one, other in zip(apart.activations, together.activations, strict=True):
        for fraction in ("clipped_low_fraction", "clipped_high_fraction"):
            assert getattr(one, fraction) == pytest.approx(getattr(other, fraction), abs=1e-12)
        for source in SOURCES if one.sources else ():
            shares = [getattr(each.sources, source) for each in (one, other)]
            assert shares[0] == pytest.approx(shares[1], abs=1e-5)
    assert any(abs(t.sources.clipping) > 0.1 for t in apart.activations if t.sources)


@pytest.fixture(params=[1, 5_000, 1 << 30])
def bytes_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch added up at once, some of them together, or all at the end."""
    for module in (compare_scores, compare_statistics):
        monkeypatch.setattr(module, "_BYTES_AT_ONCE", request.param)


@pytest.mark.usefixtures("bytes_at_once")
def test_hundreds_of_batches_are_added_up_as_a_few(net: Residual, tmp_path: Path) -> None:
    many, few = (compared(net, tmp_path, MANY, batch) for batch in (7, 200))
    for one, other in zip(many.activations, few.activations, strict=True):
        assert one.sqnr_db == pytest.approx(other.sqnr_db, abs=1e-5)
        for values in ("float_values", "quantized_values"):
            spreads = [asdict(getattr(each, values)) for each in (one, other)]
            assert spreads[0] == pytest.approx(spreads[1], rel=1e-5, abs=1e-6)
    assert many.output is not None and few.output is not None
    assert list(many.output.changed) == list(few.output.changed)
    assert many.output.kl_nats == pytest.approx(few.output.kl_nats)


@pytest.mark.usefixtures("bytes_at_once")
@pytest.mark.parametrize("batch", [7, 200])
def test_what_is_not_finite_is_found_among_hundreds(
    batch: int, net: Residual, tmp_path: Path
) -> None:
    pictures = MANY.copy()
    pictures[[530, 531, 599], 1, 2, 3] = np.nan
    found = compared(net, tmp_path, pictures, batch)
    assert found.not_finite_from == (
        "x: NaN or infinite in the float network for 3 of 600 images, first image 530"
    )
