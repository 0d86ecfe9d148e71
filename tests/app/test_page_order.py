"""A page without a browser: whatever ends first, what was asked for last is what is shown."""

import time
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from quantscope.app.editing import edits_to_address
from quantscope.app.page import Page, Setters
from quantscope.app.panes import trace
from quantscope.app.place import Given, Selection, begin_at
from quantscope.app.session import Session
from quantscope.edit import Off, SetScale
from quantscope.errors import QuantscopeError
from quantscope.quantize import PtqConfig
from quantscope.run.compare import compare

SECONDS = 60


def eventually(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    return is_so()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """Nothing is measured by itself."""
    monkeypatch.setattr(Page, "begin", lambda _: None)
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    made = Page(begin_at({"model": "resnet8-int8"}, {"tab": "Trace"}), setters)
    yield made
    made.set_edits(())
    made.close()


def test_the_model_asked_for_last_is_shown(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, began, opens = Event(), Event(), Given.open
    ended = []

    def slowly(given: Given) -> Session:
        if given.model == "resnet8-uint8":
            began.set()
            assert reads.wait(SECONDS)
        return opens(given)

    monkeypatch.setattr(Given, "open", slowly)
    opening = page._open
    monkeypatch.setattr(page, "_open", lambda given: (opening(given), ended.append(given)))
    page.open(Given("resnet8-uint8"))
    assert began.wait(SECONDS)
    page.open(Given("resnet8"))
    assert eventually(lambda: len(ended) == 1)
    reads.set()
    assert eventually(lambda: len(ended) == 2)
    assert (page.session.opened.name, page.chrome.address["model"]) == ("resnet8", "resnet8")
    assert not page.opener.busy


def test_another_model_is_not_asked_about_the_edits_of_the_one_before(page: Page) -> None:
    page.bench.way_choice.value = "runtime-int8"  # which the other model does not have
    asked = []
    page.bench.answers.ask = lambda session, applied, _: asked.append((session, applied.edits))
    edits = (SetScale("stack2.conv1.out", 0.02),)
    assert page.bench.put(edits) == ""
    assert asked == [(page.session, edits)]
    page.open(Given("resnet8-uint8"))
    assert eventually(lambda: page.opener.opened == 1)
    assert all(not said for session, said in asked if session is page.session)


def test_trace_is_there_again_with_the_model_that_it_was_of(page: Page) -> None:
    list(page.session.measure(page.session.sample.take(8)))
    page.refresh()
    assert eventually(lambda: "qs-formula" in page.tracer.text.html)
    page.open(Given("resnet8-uint8"))
    assert eventually(lambda: page.opener.opened == 1)
    if page.samples.picked is None:
        assert "being classified" in page.tracer.text.html
    page.open(Given("resnet8-int8"))
    assert eventually(lambda: "qs-formula" in page.tracer.text.html)


def test_a_layer_that_fails_late_leaves_the_map_of_the_selected_one(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(page.session.measure(page.session.sample.take(8)))
    page.refresh()
    assert eventually(lambda: "stem</h2>" in page.tracer.text.html)
    fails, output = Event(), trace._Asked.output

    def late(asked: trace._Asked) -> object:
        if asked.selection.layer == "stack1.conv1":
            assert fails.wait(SECONDS)
            raise QuantscopeError("It fails late")
        return output(asked)

    monkeypatch.setattr(trace._Asked, "output", late)
    ended, read = [], page.tracer._read
    monkeypatch.setattr(page.tracer, "_read", lambda asked: (read(asked), ended.append(asked)))
    for layer in ("stack1.conv1", "stack2.conv1"):
        page.select(Selection(layer, f"{layer}.out"))
    assert eventually(lambda: "stack2.conv1</h2>" in page.tracer.text.html)
    fails.set()
    assert eventually(lambda: len(ended) == 2)
    assert page.tracer.map.values


def test_one_switch_turns_the_whole_page_to_what_this_cpu_runs(page: Page) -> None:
    session = page.session
    session._quick = session.sample.take(4)
    session.sample = session._quick
    list(session.compare(session.quick))
    page.refresh()
    stated = page.tensors.rows
    page.way.value = "run"
    assert page.chrome.address["run"] == page.bench.way_choice.value == "runtime"
    assert eventually(lambda: page.seen.comparison is not None and not page.job.running)
    expected = compare("resnet8-int8", session.quick, execution="runtime")
    shown = {row["key"]: row["sort"] for row in page.tensors.rows}
    named = {tensor.name: tensor.sqnr_db for tensor in expected.tensors}
    assert {key: sort[6] for key, sort in shown.items()} == {key: named.get(key) for key in shown}
    inside = [text for text in page.graph.metrics[0]["texts"].values() if text == "in a kernel"]
    assert len(inside) == len(expected.unseen) > 0
    assert session.comparison.execution == "reference"
    page.way.value = "stated"
    assert page.tensors.rows == stated


def test_edits_belong_to_a_page_and_its_address(page: Page) -> None:
    edits = (SetScale("stem.out", 0.1), Off("head"))
    assert page.bench.put(edits[:1]) == page.bench.put(edits) == ""
    address = dict(page.chrome.address)
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    fresh = Page(begin_at({"model": "resnet8-int8"}, {}), setters)
    again = Page(begin_at({"model": "resnet8-int8"}, address), setters)
    try:
        assert fresh.edits == () and not fresh.bench.history
        assert again.edits == edits
        again.bench.undo()
        assert (again.edits, page.edits) == (edits[:1], edits)
        again.bench.redo()
        assert again.edits == edits
    finally:
        for one in (fresh, again):
            one.close()


def test_edits_that_the_model_does_not_take_are_left_out(page: Page) -> None:
    page.bench.put((Off("head"),))
    query = {**page.chrome.address, "model": "resnet8"}
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    other = Page(begin_at({"model": "resnet8-int8"}, query), setters)
    assert other.edits == () and other.chrome.address["edits"] == ""
    assert other.error == (
        "The edits of the address are not in force: resnet8.onnx is a float model: it has no "
        "scales to change yet. Quantize it, and open what comes out."
    )
    other.close()


def test_an_address_says_which_of_its_edits_the_model_refuses(page: Page) -> None:
    gone = edits_to_address((SetScale("stem.gone", 0.1),))
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    for edits, said in (
        (gone, "The edits of the address are not in force: "),
        ("hello", "The edits of this address cannot be read; the model is shown without them"),
    ):
        other = Page(begin_at({"model": "resnet8-int8"}, {"edits": edits}), setters)
        assert other.edits == () and other.chrome.address["edits"] == ""
        assert other.error.startswith(said) and ("stem.gone" in other.error) == (edits == gone)
        other.close()
    assert page.error == ""


def test_a_remedy_that_must_wait_for_a_trial_says_so(page: Page) -> None:
    page.lab.job.running = True  # as while a trial runs
    with pytest.raises(QuantscopeError, match="Another trial is running; wait for its end or stop"):
        page.lab.quantize(PtqConfig())


def test_a_step_back_shows_what_was_looked_at_and_keeps_the_edits(page: Page) -> None:
    before = dict(page.chrome.address)
    edits = (SetScale("stem.out", 0.1),)
    page.bench.put(edits)
    page.tabs.tab, page.graph.metric, page.way.value = "Layer", "kernel", "run"
    page.select(Selection("stack2.conv1", "stack2.conv1.out"))
    after = dict(page.chrome.address)
    told = [after[key] for key in ("tab", "colour", "run", "layer")]
    assert told == ["Layer", "kernel", "runtime", "stack2.conv1"]
    for number, to in enumerate((before, after), start=1):
        page._on_ask(None, {"do": "go", "to": to, "n": number}, None)
        assert page.chrome.address == {**to, "edits": after["edits"]}
        assert (page.chrome.gone, page.edits) == (number, edits)
    assert page.chrome.title == "resnet8-int8"


def test_a_colour_that_there_is_not_is_the_usual_one() -> None:
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    other = Page(begin_at({"model": "resnet8-int8"}, {"colour": "nice"}), setters)
    assert (other.graph.metric, other.chrome.address["colour"]) == ("sqnr", "")
    other.close()
