"""A command or a page opens each file once, and applies edits once a gesture."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from in_process import run

from quantscope.app.page import Page, Setters
from quantscope.app.place import Selection, begin_at
from quantscope.edit import Applied, Edit, Editor, Off, SetRange, SetScale
from quantscope.model import OnnxFile, bundled_models
from quantscope.model.onnx import load_onnx
from quantscope.model.torch import open_pt2

FILES = bundled_models()
MODEL, FLOAT = FILES["resnet8-int8"], FILES["resnet8"]
TENSOR = "stack2.conv1.out"
SET = ("--set", f"{TENSOR}.scale=x2")
FEW = ("--images", "8")
SECONDS = 60


class Counts:
    """How often each file was opened and its weights were read, and the edits that were applied."""

    def __init__(self) -> None:
        self.opened: Counter[Path] = Counter()
        self.weights: Counter[Path] = Counter()
        self.applied: list[tuple[Edit, ...]] = []

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    count_calls(monkeypatch, "load_onnx", load_onnx, found)
    count_calls(monkeypatch, "open_pt2", open_pt2, found)
    load_proto, apply = OnnxFile.load_proto, Editor.apply

    def counted_load(file: OnnxFile) -> object:
        found.weights[file.path] += 1
        return load_proto(file)

    def counted_apply(editor: Editor, edits: Sequence[Edit]) -> Applied:
        if edits:
            found.applied.append(tuple(edits))
        return apply(editor, edits)

    monkeypatch.setattr(OnnxFile, "load_proto", counted_load)
    monkeypatch.setattr(Editor, "apply", counted_apply)
    return found


def count_calls(
    monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., Any], found: Counts
) -> None:
    """Count in every module that has the function: many import it by its name."""

    def counted(path: Path | str) -> Any:
        found.opened[Path(path)] += 1
        return function(path)

    for module in list(sys.modules.values()):
        if vars(module).get(name) is function:
            monkeypatch.setattr(module, name, counted)


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "resnet8-int8", "--execution", "both", "--against", "resnet8", *FEW),
        ("compare", "resnet8-int8", *FEW),
        ("compare", "resnet8-int8", "--execution", "runtime", *FEW),
        ("compare", "resnet8-int8", *FEW, "--html", "{folder}/page.html"),
        ("whatif", "resnet8-int8", *SET, *FEW),
        ("whatif", "resnet8-int8", *SET, "--execution", "runtime", *FEW),
        ("trace", "resnet8-int8", "--layer", "stack1.conv1", "--image", "0", "--at", "3,5,7"),
        ("sensitivity", "resnet8-int8", *FEW),
    ],
    ids=" ".join,
)
def test_a_command_opens_each_file_once(
    arguments: tuple[str, ...], counts: Counts, tmp_path: Path
) -> None:
    done = run(*(word.format(folder=tmp_path) for word in arguments))
    assert done.returncode == 0, done.stderr
    assert counts.opened == {MODEL: 1, FLOAT: 1}
    assert set(counts.weights.values()) <= {1}, counts.weights


def test_two_versions_and_their_float_model_are_opened_once_each(
    counts: Counts, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = run("compare", "resnet8-int8", "--with", "resnet8-uint8", *FEW, "--html", page)
    assert done.returncode == 0, done.stderr
    assert counts.opened == {MODEL: 1, FILES["resnet8-uint8"]: 1, FLOAT: 1}


def test_what_needs_no_float_model_opens_none(counts: Counts, tmp_path: Path) -> None:
    done = run("capture", "resnet8-int8", "--layer", "stem", "-o", tmp_path / "stem.npz")
    assert done.returncode == 0, done.stderr
    assert counts.opened == {MODEL: 1}


def test_a_float_model_that_was_given_is_opened_once(counts: Counts, tmp_path: Path) -> None:
    model = tmp_path / "mine.onnx"
    model.write_bytes(MODEL.read_bytes())
    done = run("whatif", model, "--float", FLOAT, *SET, *FEW)
    assert done.returncode == 0, done.stderr
    assert counts.opened == {model: 1, FLOAT: 1}


def test_whatif_applies_its_edits_once(counts: Counts, tmp_path: Path) -> None:
    kept, written = tmp_path / "kept.json", tmp_path / "edited.onnx"
    done = run("whatif", "resnet8-int8", *SET, *FEW, "--save-recipe", kept, "-o", written)
    assert done.returncode == 0, done.stderr
    assert counts.applied == [(SetScale(TENSOR, factor=2.0),)]
    counts.forget()
    done = run("whatif", "resnet8-int8", "--recipe", kept, "--off", "stem", *FEW)
    assert done.returncode == 0, done.stderr
    assert counts.applied == [(SetScale(TENSOR, factor=2.0), Off("stem"))]


@pytest.mark.parametrize("command", ["compare", "whatif"])
def test_a_program_is_opened_once(command: str, counts: Counts, resnet8_program: Path) -> None:
    edit = ("--set", "stem.relu.out.scale=x2") if command == "whatif" else ()
    done = run(command, resnet8_program, *edit, *FEW)
    assert done.returncode == 0, done.stderr
    assert counts.opened[resnet8_program] == 1
    assert set(counts.opened.values()) == {1}
    assert len(counts.applied) == len(edit) / 2


@pytest.fixture
def page(counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Page]:
    """At What if, with its first answer; nothing is measured by itself.

    The model is a copy: pages of the bundled one share what other tests have opened.
    """
    model = tmp_path / "mine.onnx"
    model.write_bytes(MODEL.read_bytes())
    monkeypatch.setattr(Page, "begin", lambda _: None)
    setters = Setters(*[lambda _: None for _ in Setters.__dataclass_fields__])
    made = Page(begin_at({"model": str(model)}, {"tab": "What if"}), setters)
    made.select(Selection("stack2.conv1", TENSOR))
    made.bench.visit()
    assert eventually(lambda: answered(made))
    yield made
    made.set_edits(())
    made.close()


def eventually(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    return is_so()


def answered(page: Page) -> bool:
    """The last question has its numbers, its kernels and its SQNRs."""
    answer = page.bench.answer
    if answer is None or answer.edits != page.edits or not answer.settled:
        return False
    return not answer.edits or answer.after is not None


def move(page: Page, number: int, scale: float) -> None:
    """As the browser tells of a slider that has come to rest."""
    step = {"tensor": TENSOR, "what": "scale", "value": scale, "n": number}
    page.bench.params.edit = {"steps": [step]}


def test_a_settled_slider_move_applies_its_edits_once(page: Page, counts: Counts) -> None:
    for number, scale in enumerate((0.02, 0.03), start=1):
        counts.forget()
        move(page, number, scale)
        assert eventually(lambda: answered(page))
        assert counts.applied == [(SetScale(TENSOR, scale),)]


def test_the_panes_of_an_edited_model_apply_nothing_again(page: Page, counts: Counts) -> None:
    list(page.session.measure(page.session.sample.take(8)))
    page.refresh()
    counts.forget()
    move(page, 1, 0.02)
    assert eventually(lambda: answered(page))
    for tab in ("Samples", "Trace"):
        page.tabs.tab = tab
        page.samples.refresh()
        page.tracer.refresh()
    assert eventually(lambda: "qs-formula" in page.tracer.text.html)
    assert eventually(lambda: "prediction-edited" in page.samples.prediction.html)
    edited = page.edited
    assert edited is not None and edited is page.edited
    assert counts.applied == [(SetScale(TENSOR, 0.02),)]
    assert counts.opened == {edited.path: 1}


def test_a_page_opens_its_files_once(page: Page, counts: Counts) -> None:
    session = page.session
    few = session.sample.take(8)
    for work in (session.measure, session.compare, session.count_values, session.switch_layers):
        list(work(few))
    assert not session.failures
    assert counts.opened == {session.opened.path: 1, FLOAT: 1}


def test_switches_and_recipes_apply_what_they_put_in_force_once(page: Page, counts: Counts) -> None:
    counts.forget()
    ranged = (SetRange(TENSOR, 0.0, 3.0),)
    assert page.bench.put(ranged) == ""
    page.bench.switches.error = ""
    message = {"do": "switch", "kind": "tensor", "key": "stem.out", "on": False}
    page.bench._on_switch(None, message, None)
    assert page.edits == (*ranged, Off("stem.out"))
    page.bench._on_switch(None, {**message, "on": True}, None)
    assert page.edits == ranged
    assert counts.applied == [ranged, (*ranged, Off("stem.out")), ranged]
