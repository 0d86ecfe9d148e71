"""Who sets each range, against NumPy on all values at once."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from four_layers import write_four_layers

from quantscope.data import Samples, calibration_set, load_sample
from quantscope.errors import BadDataError, BadModelError
from quantscope.study.calibration import CalibrationInspection, inspect_calibration

COUNT = 23


def rows(seed: int, count: int = COUNT, *, outlier: int | None = None) -> Samples:
    array = np.random.default_rng(seed).normal(0, 1, (count, 5)).astype(np.float32)
    if outlier is not None:
        array[outlier] *= 20
    return Samples.from_arrays(f"rows {seed}", {"x": array})


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_four_layers(tmp_path_factory.mktemp("four"))


@pytest.fixture(scope="module")
def found(nets: tuple[Path, Path]) -> CalibrationInspection:
    return inspect_calibration(nets[0], rows(1, outlier=9), rows(2, 31))


def values(path: Path, samples: Samples, names: list[str]) -> dict[str, np.ndarray]:
    """Give the values themselves, all of them in memory."""
    proto = onnx.load(path)
    inner = [name for name in names if name not in ("x", "y")]
    proto.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, inner))
    session = ort.InferenceSession(proto.SerializeToString())
    asked = [name for name in names if name != "x"]
    run = dict(zip(asked, session.run(asked, dict(samples.arrays)), strict=True))
    return run | {"x": samples.arrays["x"]}


def test_every_end_is_that_of_all_values_and_its_sample_the_one_that_has_it(
    nets: tuple[Path, Path], found: CalibrationInspection
) -> None:
    names = [each.name for each in found.tensors]
    assert names == ["x", "a.relu", "b.relu", "c.relu", "y"]
    for name, array in values(nets[0], rows(1, outlier=9), names).items():
        each = next(t for t in found.tensors if t.name == name)
        assert each.low.value == pytest.approx(array.min(), rel=1e-5)
        assert each.high.value == pytest.approx(array.max(), rel=1e-5)
        assert each.high.sample == array.max(axis=1).argmax()
        assert each.high.channel == array[each.high.sample].argmax()
        others = np.delete(array, each.high.sample, axis=0)
        assert each.high.without == pytest.approx(others.max(), rel=1e-5)


def test_a_planted_outlier_is_found_as_what_sets_the_ranges(found: CalibrationInspection) -> None:
    assert {each.outlier.sample for each in found.outliers} == {9}
    first = next(each for each in found.tensors if each.name == "x")
    assert first.outlier_share > 0.5
    assert found.most_ends()[0][0] == 9


def test_growth_is_the_range_of_the_first_samples(
    nets: tuple[Path, Path], found: CalibrationInspection
) -> None:
    names = [each.name for each in found.tensors]
    for name, array in values(nets[0], rows(1, outlier=9), names).items():
        each = next(t for t in found.tensors if t.name == name)
        assert [samples for samples, _, _ in each.growth] == [1, 2, 4, 8, 16, COUNT]
        for samples, low, high in each.growth:
            assert (low, high) == pytest.approx(
                (array[:samples].min(), array[:samples].max()), rel=1e-5
            )
    late = next(each for each in found.tensors if each.name == "x")
    assert late.last_doubling_share is not None and late.last_doubling_share > 0.5  # row 9 of 23


def test_what_goes_beyond_is_counted_and_the_farthest_named(
    nets: tuple[Path, Path], found: CalibrationInspection
) -> None:
    narrow = inspect_calibration(nets[0], rows(3), rows(4, 31, outlier=17))
    for name, array in values(
        nets[0], rows(4, 31, outlier=17), [each.name for each in narrow.tensors]
    ).items():
        each = next(t for t in narrow.tensors if t.name == name)
        over = each.overflow
        assert over is not None and over.samples == 31
        below = array.min(axis=1) < each.low.value
        above = array.max(axis=1) > each.high.value
        assert (over.below, over.above) == (below.sum(), above.sum())
        assert over.beyond == (below | above).sum()
        excess = np.maximum(each.low.value - array.min(axis=1), array.max(axis=1) - each.high.value)
        assert over.farthest == excess.argmax()
        assert over.farthest_share == pytest.approx(excess.max() / each.span, rel=1e-4)
    assert narrow.overflowing[0].overflow is not None
    assert narrow.overflowing[0].overflow.farthest == 17


def test_values_before_a_relu_are_not_listed_and_the_reason_is(
    found: CalibrationInspection,
) -> None:
    assert found.left_out == {
        f"{name}.out": "only a Relu reads it, which is folded" for name in "abc"
    }
    assert found.notes


def test_calibration_samples_among_the_others_are_refused(nets: tuple[Path, Path]) -> None:
    mixed = rows(6, 10)
    mixed.arrays["x"][4] = rows(1).arrays["x"][2]  # type: ignore[index]
    with pytest.raises(BadDataError) as refused:
        inspect_calibration(nets[0], rows(1), mixed)
    assert str(refused.value) == (
        "1 of the 10 samples of rows 6 are calibration samples too, and go beyond no range that "
        "they set; give others with --data, or allow it with --allow-calibration-data"
    )
    allowed = inspect_calibration(nets[0], rows(1), rows(1), allow_same=True)
    assert not allowed.overflowing


def test_without_other_samples_there_is_no_overflow(nets: tuple[Path, Path]) -> None:
    found = inspect_calibration(nets[0], rows(1))
    assert all(each.overflow is None for each in found.tensors)
    assert found.data == "" and found.to_dict()["data"] is None


def test_a_quantized_model_is_refused(nets: tuple[Path, Path]) -> None:
    with pytest.raises(BadModelError, match=r"^four-int8\.onnx is quantized already, so its"):
        inspect_calibration(nets[1], rows(1))


def test_a_pytorch_model_is_refused() -> None:
    with pytest.raises(BadModelError, match=r"^resnet8\.safetensors is a PyTorch model, and"):
        inspect_calibration("resnet8-torch", calibration_set(4))


def test_samples_that_are_not_finite_set_no_range(nets: tuple[Path, Path]) -> None:
    broken = rows(1)
    broken.arrays["x"][5] = np.inf  # type: ignore[index]
    found = inspect_calibration(nets[0], broken)
    assert all(np.isfinite([each.low.value, each.high.value]).all() for each in found.tensors)
    broken.arrays["x"][:] = np.nan  # type: ignore[index]
    with pytest.raises(BadDataError, match=r"^No tensor of four\.onnx has a finite range over"):
        inspect_calibration(nets[0], broken)


def test_the_bundled_network_has_a_row_for_each_range_that_quantizing_needs() -> None:
    found = inspect_calibration("resnet8", calibration_set(24), load_sample().take(30))
    assert len(found.tensors) == 15
    assert "stem.relu.out" in {each.name for each in found.tensors}
    assert all(each.overflow is not None for each in found.tensors)
