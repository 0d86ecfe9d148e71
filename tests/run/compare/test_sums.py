"""Where a tensor's images and channels lie, and which of its readings are one input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_nets import sqnr
from paired_nets import Quantize, both, values
from tiny_qdq import TinyQdq, images_of

from quantscope.run.compare.compare import compare
from quantscope.run.compare.results import ErrorSources

RNG = np.random.default_rng(8)
PICTURES = RNG.normal(0, 1, (8, 3, 4, 5)).astype(np.float32)


def turned(net: TinyQdq, quantize: Quantize) -> str:
    """Between its layers the images are along the second axis."""
    net.node("Transpose", [quantize("x", 0.05, 128)], "t", perm=[1, 0, 2, 3])
    net.node("Sigmoid", ["t"], "s")
    net.node("Transpose", [quantize("s", 1 / 255, 0)], "u", perm=[1, 0, 2, 3])
    net.node("Flatten", ["u"], "y")
    return quantize("y", 1 / 255, 0)


@pytest.mark.parametrize("batch", [3, 7, 8])
def test_images_along_another_axis_are_summed_and_are_no_channels(
    batch: int, tmp_path: Path
) -> None:
    original, model = both(tmp_path, turned)
    found = compare(model, images_of(PICTURES), float_model=original, batch=batch)["s.out"]
    f, q = values(original, "s", PICTURES), values(model, "s_dq", PICTURES)
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=1e-3)
    assert found.float_values is not None
    assert found.float_values.mean == pytest.approx(float(f.mean()), rel=1e-5)
    assert len(found.channels) == 1 and found.worst_channels == ()


def test_what_fills_up_a_batch_never_counts(tmp_path: Path) -> None:
    def merged(net: TinyQdq, quantize: Quantize) -> str:
        net.constant("all", np.array([1, -1], np.int64))
        net.constant("apart", np.array([3, -1], np.int64))
        net.node("Reshape", [quantize("x", 0.05, 128), "all"], "m")
        net.node("Sigmoid", ["m"], "s")
        net.node("Reshape", [quantize("s", 1 / 255, 0), "apart"], "y")
        return quantize("y", 1 / 255, 0)

    original, model = both(tmp_path, merged, batch=3)
    filled = compare(model, images_of(PICTURES), float_model=original)
    assert [tensor.name for tensor in filled.activations] == ["x", "y.out"]
    ((name, why),) = [(tensor.name, tensor.reason) for tensor in filled.unseen]
    assert name == "s.out" and why.startswith("its first axis does not count images")
    whole = compare(model, images_of(PICTURES[:6]), float_model=original)
    assert [tensor.name for tensor in whole.activations] == ["x", "s.out", "y.out"]
    assert whole["s.out"].sqnr_db == pytest.approx(whole["y.out"].sqnr_db, abs=1e-4)


def test_channels_of_three_axes_are_those_of_the_convolution_around(tmp_path: Path) -> None:
    weights = [RNG.normal(0, 0.4, shape).astype(np.float32) for shape in ((4, 3, 3), (5, 4, 8))]

    def one_axis(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Conv", [quantize("x", 0.05, 128), net.constant("w", weights[0])], "c")
        net.node("Abs", [quantize("c", 0.05, 128)], "a")
        net.node("Softplus", [quantize("a", 0.05, 0)], "s")
        net.node("Relu", [quantize("s", 0.05, 0)], "r")
        net.node("Conv", [quantize("r", 0.03, 0), net.constant("v", weights[1])], "d")
        net.node("Flatten", [quantize("d", 0.05, 128)], "y")
        return "y"

    original, model = both(tmp_path, one_axis, shape=(3, 10))
    pictures = RNG.normal(0, 1, (6, 3, 10)).astype(np.float32)
    found = compare(model, images_of(pictures), float_model=original)
    counts = {tensor.name: len(tensor.channels) for tensor in found.activations}
    assert counts["x"] == 3 and counts["d.out"] == 5
    assert {counts[name] for name in ("c.out", "a.out", "s.out", "r.out")} == {4}
    f, q = values(original, "r", pictures), values(model, "r_dq", pictures)
    expected = [sqnr(f[:, channel], q[:, channel]) for channel in range(4)]
    np.testing.assert_allclose([c.sqnr_db for c in found["r.out"].channels], expected, atol=1e-3)


SCALES = (np.linspace(0.5, 2, 4) / 255).astype(np.float32)


def sigmoid_by(net: TinyQdq, quantize: Quantize, axis: int) -> str:
    """Of the input; in the quantized network with four scales along an axis."""
    net.node("Sigmoid", ["x"], "s")
    if quantize("s", 1, 0) == "s":
        return "s"
    del net.nodes[-2:]
    inputs = net.constant("scales", SCALES), net.constant("zeros", np.zeros(4, np.uint8))
    net.node("QuantizeLinear", ["s", *inputs], "s_rows", axis=axis)
    return net.node("DequantizeLinear", ["s_rows", *inputs], "s_again", axis=axis)


def test_scales_along_a_middle_axis_are_those_of_its_channels(tmp_path: Path) -> None:
    def by_row(net: TinyQdq, quantize: Quantize) -> str:
        value = sigmoid_by(net, quantize, 2)
        net.node("Neg", [value], "m")
        net.node("Flatten", [quantize("m", 1 / 200, 255)], "y")
        return "y"

    original, model = both(tmp_path, by_row)
    found = compare(model, images_of(PICTURES), float_model=original)["s.out"]
    f, q = values(original, "s", PICTURES), values(model, "s_again", PICTURES)
    expected = [sqnr(f[:, :, row], q[:, :, row]) for row in range(4)]
    np.testing.assert_allclose([c.sqnr_db for c in found.channels], expected, atol=1e-3)
    over = [float((f[:, :, row] > 255 * SCALES[row]).mean()) for row in range(4)]
    assert over[0] > 0
    np.testing.assert_allclose([c.clipped_high_fraction for c in found.channels], over)


def test_scales_along_the_images_of_a_fixed_batch_are_those_of_its_channels(
    tmp_path: Path,
) -> None:
    def by_image(net: TinyQdq, quantize: Quantize) -> str:
        value = sigmoid_by(net, quantize, 0)
        net.node("Flatten", [value], "y")
        return quantize("y", 1 / 200, 0)

    original, model = both(tmp_path, by_image, batch=4)
    found = compare(model, images_of(PICTURES), float_model=original)["s.out"]
    parts = PICTURES[:4], PICTURES[4:]
    f, q = (
        np.stack([values(path, name, part) for part in parts])
        for path, name in ((original, "s"), (model, "s_again"))
    )
    expected = [sqnr(f[:, place], q[:, place]) for place in range(4)]
    np.testing.assert_allclose([c.sqnr_db for c in found.channels], expected, atol=1e-3)
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=1e-3)


@pytest.mark.parametrize("detail", ["sqnr", "full"])
@pytest.mark.parametrize("shape", [(0, 3, 20, 1), (0, 3, 5, 4), (0, 3, 20), (0, 60)])
def test_a_float_value_in_a_shape_that_nobody_knows_is_not_broadcast(
    shape: tuple[int, ...], detail: Any, tmp_path: Path
) -> None:
    def reshaped(net: TinyQdq, quantize: Quantize) -> str:
        value = quantize("x", 0.03, 128)
        if value != "x":
            net.node("Reshape", [value, net.constant("t", np.array([0, 3, 1, 20]))], "r")
        else:  # the same numbers, their shape computed where shape inference does not follow
            net.node("Compress", [net.constant("t", np.array(shape)), net.constant(
                "all", np.ones(len(shape), bool))], "known")  # fmt: skip
            net.node("Reshape", [value, "known"], "r")
        net.node("Sigmoid", ["r"], "s")
        net.node("Reshape", [quantize("s", 0.003, 0), net.constant("u", np.array([-1, 60]))], "y")
        return quantize("y", 0.003, 0)

    original, model = both(tmp_path, reshaped)
    found = compare(model, images_of(PICTURES), float_model=original, batch=4, detail=detail)
    f, q = values(original, "s", PICTURES), values(model, "s_dq", PICTURES)
    assert f.shape != q.shape
    assert found["s.out"].sqnr_db == pytest.approx(sqnr(f, q.reshape(f.shape)), abs=1e-3)


def test_sums_of_large_images_keep_their_digits(tmp_path: Path) -> None:
    def wide(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Sigmoid", [quantize("x", 0.03, 128)], "s")
        net.node("GlobalAveragePool", [quantize("s", 0.004, 0)], "y")
        return "y"

    pictures = RNG.normal(0, 1, (1, 32, 320, 320)).astype(np.float32)
    original, model = both(tmp_path, wide, shape=(32, 320, 320))
    f, q = (values(path, name, pictures).astype(np.float64) for path, name in (
        (original, "s"), (model, "s_dq")))  # fmt: skip
    for detail in ("sqnr", "full"):
        found = compare(model, images_of(pictures), float_model=original, detail=detail)["s.out"]
        assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=2e-5)


@pytest.mark.parametrize("join", ["Add", "Mul"])
def test_a_tensor_that_is_dequantized_twice_is_one_input(join: str, tmp_path: Path) -> None:
    def doubled(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Relu", [quantize("x", 0.05, 128)], "r")
        one = other = quantize("r", 0.03, 0)
        if one != "r":
            other = net.node("DequantizeLinear", ["r_q", "r_scale", "r_zero"], "r_again")
        net.node(join, [one, other], "j")
        net.node("Flatten", [quantize("j", 0.08, 0)], "y")
        return "y"

    original, model = both(tmp_path, doubled)
    sources = compare(model, images_of(PICTURES), float_model=original)["j.out"].sources
    assert sources is not None and sources.inherited > 0.1
    assert sources.inherited_by_input == {"r.out": sources.inherited}


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ("full", "m.out: over 1.8e+19, whose square is infinite, in the float network for 8 of 8"),
        ("sqnr", "m.out: NaN, infinite or over 1.8e+19 in the float network for 8 of 8 images"),
    ],
)
def test_finite_values_too_large_to_square_are_not_called_infinite(
    detail: Any, said: str, tmp_path: Path
) -> None:
    def grown(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Mul", [quantize("x", 0.05, 128), net.constant("g", np.float32(1e20))], "m")
        net.node("Flatten", [quantize("m", 0.05e20, 128)], "y")
        return "y"

    original, model = both(tmp_path, grown)
    found = compare(model, images_of(PICTURES), float_model=original, detail=detail)
    assert found.not_finite_from is not None and found.not_finite_from.startswith(said)


def integers_of(net: TinyQdq, quantize: Quantize, value: str, scale: float, zero: int) -> str:
    """Only the integers, in the quantized network."""
    if quantize(value, scale, zero) == value:
        return value
    net.nodes.pop()
    return f"{value}_q"


def read_again(net: TinyQdq, quantize: Quantize, value: str, params: str) -> str:
    if not any(node.op_type == "QuantizeLinear" for node in net.nodes):
        return value
    return net.node("DequantizeLinear", [value, f"{params}_scale", f"{params}_zero"], f"{value}_dq")


@pytest.mark.parametrize(
    ("op", "settings", "why"),
    [
        ("MaxPool", {"kernel_shape": [2, 2]}, None),
        ("Resize", {"mode": "linear"}, "no quantizer makes it, nor are they a compared tensor's"),
    ],
)
def test_only_integers_that_are_moved_inherit_all(
    op: str, settings: dict[str, Any], why: str | None, tmp_path: Path
) -> None:
    def moved(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Relu", [quantize("x", 0.05, 128)], "r")
        value = integers_of(net, quantize, "r", 0.03, 0)
        more = ["", net.constant("by", np.array([1, 1, 2, 2], np.float32))] if why else []
        net.node(op, [value, *more], "m", **settings)
        net.node("Neg", [read_again(net, quantize, "m", "r")], "n")
        net.node("Flatten", [quantize("n", 0.03, 255)], "y")
        return "y"

    original, model = both(tmp_path, moved)
    found = compare(model, images_of(PICTURES), float_model=original)["m.out"]
    if why is None:
        assert found.sources == ErrorSources(1.0, 0.0, 0.0, 0.0, None, {"r.out": 1.0})
    else:
        assert found.sources is None and found.no_sources is not None
        assert found.no_sources.startswith(why)
    f, q = values(original, "m", PICTURES), values(model, "m_dq", PICTURES)
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=1e-3)


def test_an_infinity_before_a_quantizer_leaves_the_tensor_its_numbers(tmp_path: Path) -> None:
    def reciprocal(net: TinyQdq, quantize: Quantize) -> str:
        net.node("Abs", [quantize("x", 0.05, 128)], "a")
        net.node("Reciprocal", [quantize("a", 0.5, 0)], "d")  # small ones become zero
        net.node("Flatten", [quantize("d", 0.02, 0)], "y")
        return "y"

    original, model = both(tmp_path, reciprocal)
    comparison = compare(model, images_of(PICTURES), float_model=original)
    found = comparison["d.out"]
    f, q = values(original, "d", PICTURES), values(model, "d_dq", PICTURES)
    assert np.isfinite(f).all() and comparison.not_finite_from is None
    assert found.sqnr_db == pytest.approx(sqnr(f, q), abs=1e-3)
    assert found.sources is None and found.no_sources is not None
    assert "not finite, or too large, before the quantizer" in found.no_sources


def test_an_output_whose_first_axis_does_not_count_images_has_no_classes(tmp_path: Path) -> None:
    def turned_output(net: TinyQdq, quantize: Quantize) -> str:
        net.node("GlobalAveragePool", [quantize("x", 0.05, 128)], "p")
        net.node("Flatten", [quantize("p", 0.01, 128)], "f")
        return net.node("Transpose", ["f"], "y", perm=[1, 0])

    original, model = both(tmp_path, turned_output)
    found = compare(model, images_of(PICTURES), float_model=original, batch=5)
    assert found.output is None
    assert found.no_output == "the output has shape [3, 5] for 5 images, not [images, classes]"
    assert len(found.activations) == 2
