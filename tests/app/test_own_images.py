"""A classifier and images of one's own: measured with them, or one line why that cannot be."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from playing import playing
from playwright.sync_api import Page, expect

from quantscope.app.lab import lab_of
from quantscope.app.own_lab import OwnTrial
from quantscope.app.panes.header import numbers
from quantscope.app.panes.sample_rows import thumbnail_of
from quantscope.app.panes.scores import percent
from quantscope.app.place import Given
from quantscope.data import load_npz
from quantscope.errors import QuantscopeError
from quantscope.quantize import PtqConfig, quantize_onnx
from quantscope.run import evaluate
from quantscope.study import StudyConfig

CLASSES, SHAPE = 3, (3, 10, 14)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """float.onnx, int8.onnx, images.npz that fit, and narrow.npz that do not."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(3)
    onnx.save(small_classifier(rng), folder / "float.onnx")
    images = rng.normal(0, 1, (400, *SHAPE)).astype(np.float32)
    labels = np.sort(np.arange(400) % CLASSES)  # class by class: the first ones are all alike
    np.savez(folder / "images.npz", images=images, labels=labels, class_names=["ant", "bee", "cow"])
    np.savez(folder / "narrow.npz", images=images[:, :, :9], labels=labels)
    quantize_onnx(
        folder / "float.onnx",
        folder / "int8.onnx",
        PtqConfig(calibration_images=32),
        calibration=load_npz(folder / "images.npz"),
    )
    return folder


def small_classifier(rng: np.random.Generator) -> onnx.ModelProto:
    weights = {
        "conv.weight": rng.normal(0, 0.3, (5, 3, 3, 3)),
        "conv.bias": rng.normal(0, 0.1, 5),
        "head.weight": rng.normal(0, 1, (CLASSES, 5)),
        "head.bias": rng.normal(0, 0.1, CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "head.weight", "head.bias"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def given(folder: Path, data: str) -> Given:
    return Given(str(folder / "int8.onnx"), str(folder / "float.onnx"), str(folder / data))


def test_own_images_are_measured_on_the_page(open_page: Callable[..., Page], folder: Path) -> None:
    files = [str(folder / name) for name in ("int8.onnx", "float.onnx", "images.npz")]
    images = load_npz(files[2])
    with playing(files[0], "--float", files[1], "--data", files[2]) as address:
        page = open_page(address)
        expect(page.get_by_test_id("image-count")).to_have_text("400")
        for of, path, execution in (
            ("float", files[1], "reference"),
            ("reference", files[0], "reference"),
            ("runtime", files[0], "runtime"),
        ):
            found = evaluate(path, images, execution=execution)
            value = page.get_by_test_id(f"accuracy-{of}").locator(".qs-value")
            expect(value).to_have_text(percent(found.accuracy, 400))
        expect(page.get_by_test_id("numbers")).to_contain_text("images.npz")
        page.get_by_test_id("tab-Samples").click()
        expect(page.get_by_test_id("image-filter").locator("option").last).to_contain_text("cow")
        expect(page.get_by_test_id("thumbnail").first.locator("img")).to_be_visible()
        page.get_by_test_id("tab-What if").click()
        more = page.get_by_test_id("what-if").get_by_test_id("job-start")
        expect(more).to_have_text("on 400 images")
        more.click()
        expect(page.get_by_test_id("what-if")).to_contain_text("400 images, as the file states it")
        expect(more).to_be_hidden()
        page.get_by_test_id("tab-Quantize").click()
        expect(page.get_by_test_id("lab")).to_contain_text("Calibrated with images.npz")
        # The same form takes other files: what does not fit is one line, and the page goes on.
        page.get_by_test_id("open-toggle").click()
        for field, value in zip(("path", "float", "data"), files, strict=True):
            page.get_by_test_id(f"open-{field}").fill(value)
        page.get_by_test_id("open-data").fill(str(folder / "narrow.npz"))
        page.get_by_test_id("open-go").click()
        line = page.get_by_test_id("misfit")
        expect(line).to_contain_text("narrow.npz holds images of shape [N,3,9,14]")
        expect(page.get_by_text("narrow.npz holds images of shape")).to_have_count(1)
        expect(page.get_by_test_id("accuracy-float").locator(".qs-value")).to_have_text("–")
        page.get_by_test_id("tab-Layer").click()
        expect(page.get_by_test_id("layer")).to_contain_text("not measured")
        page.close()  # before its server goes


def test_the_first_images_have_all_classes(folder: Path) -> None:
    session = given(folder, "images.npz").open()
    assert len(session.quick) == 256
    counts = session.quick.class_counts().values()
    assert max(counts) - min(counts) <= 1
    assert session.full_count == len(session.sample) == len(session.full) == 400


def test_images_that_do_not_fit_are_one_failure(folder: Path) -> None:
    session = given(folder, "narrow.npz").open()
    list(session.measure(session.quick))
    list(session.compare(session.quick))
    list(session.count_values(session.quick))
    assert list(session.failures) == ["images"]
    assert numbers(session).text.count("narrow.npz") == 1


def test_the_lab_tries_settings_with_images_of_ones_own(folder: Path) -> None:
    session = given(folder, "images.npz").open()
    lab = lab_of(session)
    list(lab.run([StudyConfig(PtqConfig(calibration_images=32))], lambda *_: None))
    (trial,) = lab.newest_first
    assert isinstance(trial, OwnTrial)
    for execution in ("reference", "runtime"):
        expected = evaluate(trial.model, session.sample, execution=execution)
        assert trial.evaluations[execution].accuracy == expected.accuracy
    assert lab.trial(trial.key) is trial


def test_data_that_cannot_be_read_is_one_line(folder: Path) -> None:
    with pytest.raises(QuantscopeError, match="There is no"):
        given(folder, "missing.npz").open()


@pytest.mark.parametrize("shape", [(3, 6, 8), (6, 8, 3), (1, 6, 8), (6, 8)])
def test_what_looks_like_a_picture_is_one(folder: Path, shape: tuple[int, ...]) -> None:
    images = load_npz(folder / "images.npz")
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(1, *shape)
    made = images.of_images("made", values, images.labels[:1], images.indices[:1], (), "as-is")
    assert thumbnail_of(made, 0)["src"].startswith("data:image/png;base64,")
    rows = images.of_images("rows", values.reshape(1, -1), made.labels, made.indices, (), "as-is")
    assert "image/png" not in thumbnail_of(rows, 0)["src"]
