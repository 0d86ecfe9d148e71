"""Clipping is measured in batches that have any, so what tells them must miss none."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from paired_nets import Array, Quantize, both, values
from tiny_qdq import TinyQdq, images_of

from quantscope.run.compare.compare import compare

LOW, HIGH = -128 * 12 / 127, 12.0


def times_ten(step: float) -> Callable[[TinyQdq, Quantize], str]:
    """The input is rounded coarsely, so before the last quantizer the two networks are apart."""

    def body(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Mul", [quantize("x", step, 0, np.int8), net.constant("ten", np.float32(10))], "m")
        net.node("Flatten", [quantize("m", 12 / 127, 0, np.int8)], "y")
        return "y"

    return body


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("step", "picture", "beyond"),
    [
        (1.0, 1.25, ("float",)),  # 12.5, and 10 in the quantized network
        (1.0, 1.15, ()),
        (0.7, 1.1, ("before",)),  # 11, and 14
        (0.7, 1.3, ("float", "before")),
    ],
)
def test_each_value_beyond_an_end_is_found(
    step: float, picture: float, beyond: tuple[str, ...], sign: int, tmp_path: Path
) -> None:
    pictures = np.full((3, 2, 1, 3), 0.01, np.float32)
    pictures[1, 1, 0, 2] = sign * picture
    original, model = both(tmp_path, times_ten(step), shape=(2, 1, 3))
    f, b, q = (
        values(path, name, pictures).astype(np.float64)
        for path, name in ((original, "m"), (model, "m"), (model, "m_dq"))
    )
    assert ("float" in beyond) == bool((f < LOW).any() or (f > HIGH).any())
    assert ("before" in beyond) == bool((b < LOW).any() or (b > HIGH).any())
    found = compare(model, images_of(pictures), float_model=original, batch=1)["m.out"]
    assert found.clipped_low_fraction == pytest.approx((f < LOW).mean())
    assert found.clipped_high_fraction == pytest.approx((f > HIGH).mean())
    error = q - f
    cut = ((np.clip(b, LOW, HIGH) - b) * error).sum() / (error * error).sum()
    assert found.sources is not None
    assert found.sources.clipping == pytest.approx(cut, abs=1e-5)
    assert found.sources.total == pytest.approx(1)


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_what_is_no_number_before_a_quantizer_hides_no_clipping(batch: int, tmp_path: Path) -> None:
    def divided(net: TinyQdq, quantize: Quantize) -> str:
        x = quantize("x", 0.05, 128)
        net.node("Abs", [x], "a")
        net.node("Neg", [x], "b")
        net.node("Div", [quantize("b", 0.5, 128), quantize("a", 0.5, 0)], "d")  # 0/0, quantized
        net.node("Flatten", [quantize("d", 0.001, 100)], "y")
        return "y"

    pictures: Array = np.random.default_rng(8).normal(0, 1, (8, 3, 4, 5)).astype(np.float32)
    original, model = both(tmp_path, divided)
    assert np.isnan(values(model, "d", pictures)).any()
    f = values(original, "d", pictures)
    found = compare(model, images_of(pictures), float_model=original, batch=batch)["d.out"]
    assert found.clipped_low_fraction == pytest.approx((f < -0.1001).mean())
    assert found.clipped_high_fraction == pytest.approx((f > 0.1551).mean())
    assert found.sources is None
