"""What is copied from the page gives the page's numbers again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from in_process import run

from quantscope.app.opened import open_pair
from quantscope.app.panes.take import float_of, subject_of
from quantscope.app.place import Given
from quantscope.app.reproduce import (
    Reproduction,
    Subject,
    answers,
    bits,
    comparison,
    diagnosis,
    effect,
    parameters,
    scores,
    sensitivities,
    sums,
)
from quantscope.app.session import Session
from quantscope.data import PictureWishes, RowWishes, load_sample, samples_for, stratify
from quantscope.edit import Edit, FlipBit, Off, OffRole, SetBits, SetRange, SetScale, SetZeroPoint
from quantscope.model import open_model, residuals
from quantscope.run import evaluate
from quantscope.run.compare import compare
from quantscope.run.whatif import WhatIf

MODEL = "resnet8-int8"
COUNT = 40


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(MODEL, open_model(MODEL).digest, counts=(COUNT,), rows_in_all=1000)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(open_pair(MODEL))


def told(found: Reproduction) -> Any:
    """What the copied command prints, as values."""
    words = shlex.split(found.command)
    assert words[0] == "quantscope"
    done = run(*words[1:], "--json")
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def made(found: Reproduction) -> dict[str, Any]:
    """What the copied Python has made."""
    names: dict[str, Any] = {}
    exec(found.python, names)  # it is our own text, and what is under test
    return names


def test_scores_are_those_of_the_page(subject: Subject) -> None:
    found = scores(subject, ("reference", "runtime"))
    here = evaluate(MODEL, stratify(load_sample(), COUNT), execution="reference")
    by_command, by_python = told(found), made(found)
    by_command = by_command["executions"]
    assert by_command["reference"]["correct"] == by_python["reference"].correct == here.correct
    assert by_command["runtime"]["loss"] == by_python["runtime"].loss


def test_the_float_model_s_score_is_that_of_the_page(subject: Subject, session: Session) -> None:
    found = scores(float_of(subject, session), ("reference",), "the float model's score")
    here = evaluate("resnet8", stratify(load_sample(), COUNT), execution="reference")
    assert told(found)["loss"] == made(found)["reference"].loss == here.loss


def test_the_error_of_a_tensor_is_that_of_the_page(subject: Subject) -> None:
    found = comparison(subject, "reference", "stack2.conv1.out")
    here = compare(MODEL, stratify(load_sample(), COUNT))["stack2.conv1.out"]
    assert made(found)["result"] == here
    (row,) = (r for r in told(found)["tensors"] if r["name"] == "stack2.conv1.out")
    assert row["sqnr_db"] == here.sqnr_db


@pytest.mark.parametrize(
    "edits",
    [
        (SetScale("stem.out", factor=2.0), SetRange("pool.out", -0.5, 3.0), OffRole("weights")),
        (SetZeroPoint("stem.out", -100), SetBits("head.weight", 4), Off("stack1.add")),
        (Off("stack2.conv1"), SetScale("stem.out", 0.1)),
        (FlipBit("stem.weight", (0, 0, 0, 0), 6), SetZeroPoint("stem.out", -100)),
    ],
    ids=["options", "more options", "another order", "no option"],
)
def test_what_edits_do_is_that_of_the_page(
    subject: Subject,
    edits: tuple[Edit, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = effect(subject, edits, "reference")
    here = WhatIf(MODEL, stratify(load_sample(), COUNT)).answer(edits, full=True).evaluation
    result = made(found)["result"].evaluation
    assert (result.correct, result.loss) == (here.correct, here.loss)
    if found.command.startswith("cat"):
        head, rest = found.command.split("\n", 1)
        recipe, command = rest.split("\nEND\n")
        (tmp_path / head.split()[2]).write_text(recipe)
        found = Reproduction(found.what, command, found.python)
    by_command = told(found)["evaluation"]
    assert (by_command["correct"], by_command["loss"]) == (here.correct, here.loss)


def test_what_files_state_is_that_of_the_page(subject: Subject) -> None:
    layer = parameters(subject, "stack2.conv1")
    network = open_model(MODEL).network
    assert made(layer)["result"].name == told(layer)["layer"]["name"] == "stack2.conv1"
    joined = sums(subject)
    assert [one.layer for one in made(joined)["result"]] == [r.layer for r in residuals(network)]
    assert len(told(joined)["residuals"]) == len(residuals(network))


def test_the_answers_to_a_row_are_those_of_the_page(subject: Subject) -> None:
    found = answers(subject, 7, ("reference",))
    one = stratify(load_sample(), COUNT).select([7])
    here = evaluate(MODEL, one, execution="reference")
    result = made(found)["reference"]
    assert all((result[name] == here.outputs[name]).all() for name in here.outputs)
    assert not found.command and "one row" in found.why


def test_every_text_is_a_command_and_python_that_can_be_read(subject: Subject) -> None:
    for found in (
        diagnosis(subject, tries=True),
        sensitivities(subject),
        *(bits(subject, kind) for kind in ("map", "curves", "frontier")),
    ):
        compile(found.python, found.what, "exec")
        name = shlex.split(found.command)[1]
        options = {word.split("=")[0] for word in shlex.split(found.command) if word[:2] == "--"}
        helped = run(name, "--help").stdout
        assert options and all(option in helped for option in options), found.command


def test_names_and_paths_are_never_read_as_anything_else() -> None:
    subject = Subject("/a b/$(x)'.onnx", data="/d;e.npz", counts=(5,), rows_in_all=9)
    found = effect(subject, (Off("a'; rm -rf ~\nimport os"),), "reference")
    words = shlex.split(found.command)
    assert words[2] == "/a b/$(x)'.onnx" and words[4] == "/d;e.npz"
    assert "--off=a'; rm -rf ~\nimport os" in words
    assert not any(line.startswith("import os") for line in found.python.splitlines())
    compile(found.python, "hostile", "exec")


def test_wishes_are_options_and_values() -> None:
    pictures = PictureWishes((8, 9), (0.5,), (0.25, 1.0, 2.0), 1 / 255, "nchw", "bgr")
    wishes = RowWishes({"x": (1, 3, 8, 9)}, pictures, 4)
    subject = Subject("m.onnx", data="rows", wishes=wishes, rows_in_all=5)
    found = comparison(subject, "reference")
    assert found.command == (
        "quantscope compare m.onnx --data rows --shape x=1x3x8x9 --size 8x9 --mean=0.5 "
        "--std=0.25,1.0,2.0 --scale 0.00392156862745098 --layout nchw --picture-channels bgr "
        "--seed 4 --execution reference"
    )
    assert repr(wishes) in found.python


def test_rows_are_those_that_the_page_has_taken(session: Session) -> None:
    given = Given(MODEL)
    quick = subject_of(session, given, len(session.quick))
    assert (quick.model, quick.data, quick.counts) == (MODEL, "", (len(session.quick),))
    whole = subject_of(session, given, len(session.sample))
    assert whole.counts == () and "--images" not in diagnosis(whole, tries=False).command
    full = subject_of(session, given, 10_000)
    assert "--data full --images 10000" in diagnosis(full, tries=False).command


def test_rows_chosen_in_two_steps_are_python_alone() -> None:
    opened = open_pair(MODEL)
    many = Session(opened, samples_for(opened.model, "random:1001"))
    subject = subject_of(many, Given(MODEL, data="random:1001"), len(many.quick))
    assert subject.counts == (1000, len(many.quick))
    found = scores(subject, ("reference",))
    assert not found.command and "two steps" in found.why
    rows = made(Reproduction("", "", found.python.split("reference =")[0]))["rows"]
    assert rows.digest == many.quick.digest
