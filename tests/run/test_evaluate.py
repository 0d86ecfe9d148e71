"""Evaluation: the numbers, the two layouts, and what does not fit."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from quantscope.data import ImageSet, load_npz, load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.run import compare_evaluations, evaluate, open_runnable


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def linear_classifier(
    path: Path, *, shape: list[int | str], classes: int = 3, softmax: bool = False, dtype: int = 1
) -> Path:
    """Scores are the sums of thirds of the image, so that every value of it matters."""
    size = int(np.prod([d for d in shape[1:] if isinstance(d, int)]))
    weights = np.zeros((size, classes), np.float32)
    for c in range(classes):
        weights[c::classes, c] = 1
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=1)]
    nodes += [helper.make_node("Flatten", ["f"], ["flat"])]
    nodes += [helper.make_node("MatMul", ["flat", "w"], ["scores"])]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["scores"], ["p"]))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("p" if softmax else "scores", 1, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path
    )


def image_set(path: Path, images: np.ndarray, labels: np.ndarray) -> ImageSet:
    np.savez(path, images=images, labels=labels)
    return load_npz(path)


@pytest.fixture
def small_set(tmp_path: Path) -> ImageSet:
    rng = np.random.default_rng(3)
    images = rng.normal(size=(11, 2, 3, 5)).astype(np.float32)
    return image_set(tmp_path / "small.npz", images, rng.integers(0, 3, 11))


def test_the_numbers_are_those_of_plain_numpy(small_set: ImageSet, tmp_path: Path) -> None:
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 3, 5])
    result = evaluate(path, small_set, batch=4)
    session = ort.InferenceSession(path)
    scores = session.run(None, {"x": small_set.images})[0]
    right = scores.argmax(1) == small_set.labels
    log_p = scores - np.log(np.exp(scores.astype(np.float64)).sum(1, keepdims=True))
    assert result.correct == right.sum()
    assert result.loss == pytest.approx(-log_p[np.arange(11), small_set.labels].mean())
    confusion = np.zeros((3, 3), int)
    np.add.at(confusion, (small_set.labels, scores.argmax(1)), 1)
    assert np.array_equal(result.confusion, confusion)
    assert [c.total for c in result.per_class] == np.bincount(
        small_set.labels, minlength=3
    ).tolist()
    assert sum(c.correct for c in result.per_class) == result.correct


def test_loss_of_probabilities_is_not_taken_of_a_second_softmax(
    small_set: ImageSet, tmp_path: Path
) -> None:
    plain = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 3, 5])
    softmax = linear_classifier(tmp_path / "s.onnx", shape=["N", 2, 3, 5], softmax=True)
    assert evaluate(softmax, small_set).loss == pytest.approx(evaluate(plain, small_set).loss)


@pytest.mark.parametrize("batch", [1, 3, 11, 64])
def test_the_batch_size_changes_nothing(batch: int, small_set: ImageSet, tmp_path: Path) -> None:
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 3, 5])
    result = evaluate(path, small_set, batch=batch)
    np.testing.assert_allclose(result.scores, evaluate(path, small_set).scores, rtol=1e-6)


def test_a_fixed_batch_is_filled_up(small_set: ImageSet, tmp_path: Path) -> None:
    fixed = linear_classifier(tmp_path / "f.onnx", shape=[4, 2, 3, 5])
    free = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 3, 5])
    np.testing.assert_allclose(
        evaluate(fixed, small_set).scores, evaluate(free, small_set).scores, rtol=1e-6
    )
    with pytest.raises(BadConfigError, match=r"f\.onnx takes batches of 4 only, not 5"):
        evaluate(fixed, small_set, batch=5)


def transposed_resnet8(source: Path, target: Path) -> Path:
    """The same network with an input [N,32,32,3], as models converted from Keras have it."""
    model = onnx.load(source)
    model.graph.node.insert(
        0, helper.make_node("Transpose", ["nhwc"], ["input"], perm=[0, 3, 1, 2])
    )
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("nhwc", 1, ["N", 32, 32, 3]))
    return save(model, target)


def test_channels_last_models_see_the_same_images(random_resnet8: Path, tmp_path: Path) -> None:
    sample = load_sample().take(20)
    last = transposed_resnet8(random_resnet8, tmp_path / "last.onnx")
    np.testing.assert_allclose(
        evaluate(last, sample).scores, evaluate(random_resnet8, sample).scores, rtol=1e-5
    )


def test_pixels_reach_the_model_unscaled(tmp_path: Path) -> None:
    sample = load_sample().take(5)
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 3, 32, 32], classes=10)
    scores = evaluate(path, sample).scores
    np.testing.assert_allclose(scores.sum(1), sample.images.reshape(5, -1).sum(1), rtol=1e-6)


def test_uint8_inputs_are_fed_uint8(tmp_path: Path) -> None:
    path = linear_classifier(
        tmp_path / "m.onnx", shape=["N", 3, 32, 32], classes=10, dtype=onnx.TensorProto.UINT8
    )
    assert evaluate(path, load_sample().take(3)).images == 3


def test_int8_inputs_cannot_hold_pixels(tmp_path: Path) -> None:
    path = linear_classifier(
        tmp_path / "m.onnx", shape=["N", 3, 32, 32], classes=10, dtype=onnx.TensorProto.INT8
    )
    with pytest.raises(BadDataError, match="takes int8, which cannot hold the pixels"):
        evaluate(path, load_sample().take(3))


def test_a_mismatch_says_both_shapes(small_set: ImageSet, tmp_path: Path) -> None:
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 4, 5])
    with pytest.raises(BadDataError, match=r"shape \[N,2,3,5\], but m\.onnx takes \[N,2,4,5\]"):
        evaluate(path, small_set)


def test_neither_layout_says_what_the_model_takes(tmp_path: Path) -> None:
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 3, 28, 28])
    message = r"m\.onnx takes input \[N,3,28,28\], which is neither layout of CIFAR-10's images"
    with pytest.raises(BadModelError, match=message):
        evaluate(path, load_sample().take(3))


def test_labels_outside_the_classes_are_said(small_set: ImageSet, tmp_path: Path) -> None:
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 3, 5], classes=2)
    with pytest.raises(BadDataError, match=r"labels 0\.\.2, but m\.onnx tells 2 classes apart"):
        evaluate(path, small_set)


def test_images_with_nan_scores_count_as_wrong(tmp_path: Path) -> None:
    images = np.ones((4, 1, 1, 3), np.float32)
    images[2, 0, 0, 0] = np.nan
    data = image_set(tmp_path / "d.npz", images, np.zeros(4, int))
    result = evaluate(linear_classifier(tmp_path / "m.onnx", shape=["N", 1, 1, 3]), data)
    assert (result.correct, result.not_finite, result.loss) == (3, 1, None)
    assert result.confusion.sum() == 3


def test_progress_ends_at_the_number_of_images(random_resnet8: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    evaluate(random_resnet8, load_sample().take(70), batch=32, progress=lambda *a: seen.append(a))
    assert [done for _, done, _ in seen] == [32, 64, 70]
    assert {total for *_, total in seen} == {70}


def test_reference_and_runtime_agree_on_a_float_model(random_resnet8: Path) -> None:
    sample = load_sample().take(50)
    by = {e: evaluate(random_resnet8, sample, execution=e) for e in ("reference", "runtime")}
    assert by["reference"].execution == "reference"
    assert by["reference"].provenance["onnxruntime"] == ort.__version__
    np.testing.assert_allclose(by["reference"].scores, by["runtime"].scores, rtol=1e-3, atol=1e-3)


def test_a_torch_model_has_no_runtime_execution() -> None:
    with pytest.raises(BadConfigError, match="has no runtime execution here"):
        open_runnable("resnet8-torch", execution="runtime")


def test_a_missing_model_names_the_bundled_ones() -> None:
    with pytest.raises(BadModelError, match=r"There is no file gone\.onnx.*bundled one: resnet8"):
        open_runnable("gone.onnx")


def test_paired_counts_flips_both_ways(small_set: ImageSet, tmp_path: Path) -> None:
    path = linear_classifier(tmp_path / "m.onnx", shape=["N", 2, 3, 5])
    model = onnx.load(path)
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0])
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(-weights, "w"))
    one, two = evaluate(path, small_set), evaluate(save(model, tmp_path / "n.onnx"), small_set)
    delta = compare_evaluations(one, two)
    right_one, right_two = one.predictions == one.labels, two.predictions == two.labels
    assert set(delta.gained) == set(np.flatnonzero(right_one & ~right_two))
    assert set(delta.lost) == set(np.flatnonzero(~right_one & right_two))
    assert len(delta.gained) > 0 and len(delta.lost) > 0
    assert delta.delta == pytest.approx((right_one.sum() - right_two.sum()) / 11)
    assert delta.interval_95[0] <= delta.delta <= delta.interval_95[1]


def test_different_images_are_not_paired(random_resnet8: Path) -> None:
    sample = load_sample()
    one, two = (evaluate(random_resnet8, sample.take(n)) for n in (5, 6))
    with pytest.raises(BadDataError, match=r"evaluated on 5 images .* on 6 of"):
        compare_evaluations(one, two)
