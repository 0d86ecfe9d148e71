"""What the page knows, without a page."""

import gc
import threading
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from quantscope.app.editing import History, history_of, keep_history
from quantscope.app.memo import Memo
from quantscope.app.metrics import metrics, node_keys
from quantscope.app.opened import Opened, open_pair
from quantscope.app.panes.layers import pairs_html, wanted
from quantscope.app.panes.parts import safe, sentence, with_minus
from quantscope.app.pictures import picture_of
from quantscope.app.place import Selection, first_selection, fitting
from quantscope.app.session import Session, session_for
from quantscope.edit import Off
from quantscope.errors import BadModelError, StoppedError
from quantscope.model import bundled_models
from quantscope.report import pair_sentences
from quantscope.report.figures import weight_ranges
from quantscope.run.compare.compare import compare
from quantscope.study.interactions import interactions


@pytest.fixture(scope="module")
def opened() -> Opened:
    return open_pair("resnet8-int8")


@pytest.fixture(scope="module")
def session(opened: Opened) -> Session:
    """Compared on 20 images."""
    made = Session(opened)
    list(made.compare(made.sample.take(20)))
    return made


def test_memo_forgets_what_was_used_longest_ago() -> None:
    memo = Memo(2)
    memo.get("a", lambda: 1)
    memo.get("b", lambda: 2)
    memo.get("a", lambda: 3)
    memo.get("c", lambda: 4)
    assert (memo.peek("a"), memo.peek("b"), memo.peek("c"), len(memo)) == (1, None, 4, 2)


def test_memo_computes_once_for_all_who_ask_at_once() -> None:
    memo, calls, gate = Memo(4), [], threading.Event()

    def make() -> int:
        gate.wait(10)
        calls.append(1)
        return len(calls)

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(memo.get(0, make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert found == [1, 1, 1, 1]


def test_pair_is_read_once_until_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(bundled_models()["resnet8-int8"].read_bytes())
    first = open_pair(path)
    assert open_pair(path) is first
    path.write_bytes(bundled_models()["resnet8-uint8"].read_bytes())
    assert open_pair(path).key != first.key


def test_what_no_page_holds_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(bundled_models()["resnet8-int8"].read_bytes())
    session = session_for(open_pair(path))
    kept = weakref.ref(session), weakref.ref(session.opened)
    assert session_for(open_pair(path)) is session
    del session
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_sessions_of_the_same_pair_are_shared(opened: Opened) -> None:
    assert session_for(opened) is session_for(opened)


def test_a_copy_has_a_session_name_and_history_of_its_own(opened: Opened, tmp_path: Path) -> None:
    path, linked = tmp_path / "mine.onnx", tmp_path / "linked.onnx"
    path.write_bytes(opened.path.read_bytes())
    linked.symlink_to(path)
    keep_history(opened, (Off("stem"),), History(((),)))
    for copy, name in ((open_pair(path), "mine.onnx"), (open_pair(linked), "linked.onnx")):
        assert copy.network.digest == opened.network.digest
        assert session_for(copy).opened.name == name
        assert not history_of(copy, (Off("stem"),))
    assert session_for(opened).opened.name == "resnet8-int8"
    assert history_of(opened, (Off("stem"),))


def test_float_model_is_opened_alone() -> None:
    opened = open_pair("resnet8")
    assert opened.is_float
    assert opened.executions == ()
    with pytest.raises(BadModelError, match="give the quantized one first"):
        open_pair("resnet8", "resnet8")


def test_failure_is_a_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "float.onnx"
    path.write_bytes(bundled_models()["resnet8"].read_bytes())
    session = Session(open_pair("resnet8-int8", path))
    path.unlink()
    list(session.measure(session.sample.take(10)))
    assert list(session.failures) == ["float"]
    assert "float.onnx" in session.failures["float"]
    found = session.accuracies
    assert found is not None
    assert (found.float_, len(found.images)) == (None, 10)
    assert found.reference is not None and found.gap is not None


def test_stopping_is_no_failure(opened: Opened) -> None:
    session = Session(opened)

    def stop(what: str, done: int, total: int) -> None:
        raise StoppedError("Stopped")

    with pytest.raises(StoppedError):
        list(session.measure(session.quick, stop))
    assert session.failures == {}


def test_metrics_are_the_comparison_s(session: Session, opened: Opened) -> None:
    expected = compare("resnet8-int8", session.sample.take(20))
    by_key = {metric.key: metric for metric in metrics(session)}
    for key, layer in node_keys(session).items():
        if layer is not None:
            row = expected[layer.outputs[0].quant.name]
            assert by_key["sqnr"].values[key] == row.sqnr_db
            assert by_key["local_sqnr"].values[key] == row.local_sqnr_db
    weights = by_key["weight_range"].values["layer0"]
    assert weights == np.abs(opened.network.layer("stem").weight.values()).max()


def test_metric_without_values_says_what_it_waits_for(opened: Opened) -> None:
    waiting = {metric.key: metric.waiting for metric in metrics(Session(opened))}
    assert waiting["sqnr"] == "being compared"
    assert waiting["kernel"] == "being read"
    assert waiting["scale"] == ""


def test_selection_stays_where_the_other_network_has_the_layer(opened: Opened) -> None:
    other = open_pair("resnet8-uint8").network
    there = Selection("stack2.conv1", "stack2.conv1.weight")
    assert fitting(there, other) == there
    assert fitting(Selection("gone", "gone.out"), other) == first_selection(other)


def test_sentence_names_the_largest_source(session: Session) -> None:
    row = session.find_comparison("stack2.add.out")
    assert row is not None
    assert sentence(row).startswith("Mostly inherited: ")
    assert "through stack2.conv2.out" in sentence(row)
    assert sentence(session.find_comparison("input")).startswith("It has no error")


def test_every_layer_of_a_figure_has_a_place_to_click(opened: Opened) -> None:
    figure = weight_ranges(opened.network, opened.pairing)
    picture = picture_of(figure, width=7.4, height=3.2)
    names = [layer.name for layer in opened.network.layers if layer.weight]
    assert [region.gid for region in picture.regions] == names
    edges = [(region.x0, region.x1) for region in picture.regions]
    assert all(0 <= low < high <= 1 for low, high in edges)
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(edges))


def test_title_and_note_become_text() -> None:
    figure = Figure()
    figure.add_subplot().set_title("What it is", loc="left")
    figure.supxlabel("what to\nknow")
    picture = picture_of(figure)
    assert (picture.title, picture.caption) == ("What it is", "what to know")
    assert picture.src.startswith("data:image/png;base64,")


@pytest.mark.slow
def test_a_program_finds_its_float_weights_and_is_compared_with_them(
    resnet8_program: Path, tmp_path: Path
) -> None:
    bundled = bundled_models()
    found = open_pair(resnet8_program)
    assert (found.float_path, found.no_float) == (bundled["resnet8"], None)
    assert found.compared_with == bundled["resnet8-torch"]
    assert open_pair(resnet8_program, "resnet8").compared_with == bundled["resnet8-torch"]
    weights = tmp_path / "mine.safetensors"
    weights.write_bytes(bundled["resnet8-torch"].read_bytes())
    given = open_pair(resnet8_program, weights)
    assert given.float_path is not None
    assert (given.float_path.name, given.compared_with) == ("mine.onnx", weights)
    session = Session(found)
    images = session.sample.take(20)
    list(session.measure(images))
    list(session.compare(images))
    list(session.count_values(images))
    assert session.failures == {}
    assert session.comparison is not None
    expected = compare(resnet8_program, images)
    sqnr = {row.name: row.sqnr_db for row in expected.tensors}
    assert {row.name: row.sqnr_db for row in session.comparison.tensors} == sqnr


def test_pairs_of_layers_are_the_library_s_and_stand_on_the_page() -> None:
    made = Session(open_pair("resnet8-int8"))
    made._quick = made.sample.take(8)
    made._sets[8] = made.quick
    assert "measure what every two layers cost together" in pairs_html(made)

    def stop(_what: str, done: int, _total: int) -> None:
        if done > 3:
            raise StoppedError("Stopped")

    with pytest.raises(StoppedError):
        list(made.switch_pairs(stop))
    assert made.interactions is None and "interactions" not in made.failures
    list(made.switch_pairs())
    expected = interactions("resnet8-int8", made.quick)
    assert made.interactions is not None
    assert made.interactions.pairs == expected.pairs
    text = pairs_html(made)
    assert all(with_minus(safe(each.strip())) in text for each in pair_sentences(expected))
    assert [each.title for each in wanted(made, theme="light")][-1] == (
        "What two layers cost together beyond alone"
    )
