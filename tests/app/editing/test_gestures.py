"""A person's gestures as edits: short lists that do what was last asked."""

from dataclasses import replace

import numpy as np
import pytest

from quantscope.app import editing as book
from quantscope.app.opened import Opened, open_pair
from quantscope.app.panes.what_if.answers import Answer, RunChoice, join_answers
from quantscope.app.session import Session
from quantscope.arithmetic import QuantParams
from quantscope.edit import Editor, Off, OffRole, On, SetBits, SetRange, SetScale, SetZeroPoint
from quantscope.errors import BadConfigError
from quantscope.model import QuantTensor
from quantscope.run.whatif.whatif import WhatIf


@pytest.fixture(scope="module")
def editor() -> Editor:
    return Editor("resnet8-int8")


@pytest.fixture(scope="module")
def opened() -> Opened:
    return open_pair("resnet8-int8")


def tensor(editor: Editor, name: str) -> QuantTensor:
    return next(t for t in editor.network.tensors if t.name == name)


def now(editor: Editor, edits: book.Edits, name: str) -> QuantParams:
    changes = {change.tensor: change.after for change in editor.apply(edits).changes}
    found = changes.get(name, tensor(editor, name).params)
    assert found is not None
    return found


def off(editor: Editor, *names: str) -> object:
    def is_off(edits: book.Edits) -> list[bool]:
        gone = {c.tensor for c in editor.apply(edits).changes if c.after is None}
        return [name in gone for name in names]

    return is_off


def test_a_hundred_moves_of_a_slider_are_one_edit(editor: Editor) -> None:
    out = tensor(editor, "stem.out")
    edits: book.Edits = ()
    for step in range(100):
        edits = book.set_scale(edits, out, now(editor, edits, "stem.out"), (50 + step) / 1000)
    assert edits == (SetScale("stem.out", 0.149),)


def test_a_scale_moved_back_is_no_edit(editor: Editor) -> None:
    out = tensor(editor, "stem.out")
    edits = book.set_scale((), out, out.params, 0.5)
    assert book.set_scale(edits, out, out.params, float(out.params.scale)) == ()
    assert book.set_zero_point((), out, out.params, -128) == ()
    assert book.set_factor((), out, 1.0) == ()


def test_a_scale_after_a_range_keeps_the_zero_point_that_the_range_gave(editor: Editor) -> None:
    out = tensor(editor, "stem.out")
    ranged = book.set_range((), out, -1.0, 5.0)
    before = now(editor, ranged, "stem.out")
    edits = book.set_scale(ranged, out, before, 0.1)
    assert not any(isinstance(edit, SetRange) for edit in edits)
    after = now(editor, edits, "stem.out")
    assert after.zero_point == before.zero_point
    assert float(after.scale) == pytest.approx(0.1)


def test_a_range_takes_the_place_of_scale_and_zero_point(editor: Editor) -> None:
    out = tensor(editor, "stem.out")
    edits = (SetScale("stem.out", 0.1), SetZeroPoint("stem.out", 3), SetScale("head.out", 0.3))
    assert book.set_range(edits, out, 0.0, 9.0) == (
        SetScale("head.out", 0.3),
        SetRange("stem.out", 0.0, 9.0),
    )


def test_what_was_touched_last_stands_last(editor: Editor) -> None:
    edits = (SetScale("stem.out", 0.1), SetScale("head.out", 0.3))
    out = tensor(editor, "stem.out")
    moved = book.set_scale(edits, out, now(editor, edits, "stem.out"), 0.2)
    assert moved == (SetScale("head.out", 0.3), SetScale("stem.out", 0.2))


def test_one_channel_under_a_factor_is_what_it_was_set_to(editor: Editor) -> None:
    weight = tensor(editor, "stem.weight")
    edits = book.set_factor((), weight, 2.0)
    edits = book.set_channel(edits, weight, now(editor, edits, "stem.weight"), 5, 0.001)
    scales = now(editor, edits, "stem.weight").scale
    assert float(scales[5]) == pytest.approx(0.001)
    assert float(scales[4]) == pytest.approx(2 * float(weight.params.scale[4]))
    assert book.factor_of(edits, weight) == 2.0
    back = book.set_factor(edits, weight, 1.0)
    assert float(now(editor, back, "stem.weight").scale[5]) == pytest.approx(0.0005)


def test_reset_leaves_switches_and_other_tensors(editor: Editor) -> None:
    edits = (SetScale("stem.out", 0.1), Off("stem.out"), SetScale("head.out", 0.3))
    kept = book.reset(edits, tensor(editor, "stem.out"))
    assert kept == (Off("stem.out"), SetScale("head.out", 0.3))


def test_switching_off_and_on_leaves_nothing_behind(editor: Editor) -> None:
    is_off = off(editor, "stem.out")
    edits = book.switch((), "stem.out", on=False, is_off=is_off)
    assert edits == (Off("stem.out"),)
    assert book.switch(edits, "stem.out", on=True, is_off=is_off) == ()


def test_one_tensor_comes_back_from_all_activations(editor: Editor) -> None:
    is_off = off(editor, "stem.out")
    edits = book.switch((OffRole("activations"),), "stem.out", on=True, is_off=is_off)
    assert edits == (OffRole("activations"), On("stem.out"))
    assert book.switch(edits, "stem.out", on=False, is_off=is_off) == (OffRole("activations"),)


def test_all_weights_come_back_even_those_switched_off_by_layer(editor: Editor) -> None:
    is_off = off(editor, "stem.weight", "head.weight")
    edits = book.switch_role((Off("stem"),), "weights", on=False, is_off=is_off)
    assert edits == (Off("stem"), OffRole("weights"))
    edits = book.switch_role(edits, "weights", on=True, is_off=is_off)
    assert not any(is_off(edits))  # type: ignore[operator]


def test_the_second_half_of_a_quick_answer_does_not_take_better_numbers_back(
    opened: Opened,
) -> None:
    session = Session(opened)
    tool = WhatIf("resnet8-int8", session.sample.take(20), quick=10)
    edits, way = (SetScale("stem.out", 0.2),), RunChoice()
    applied = tool.editor.apply(edits)
    question = Answer(session, edits, way, applied)
    quick = replace(question, images=tool.quick_images, effect=tool.effect_of(applied))
    full = replace(
        question, images=tool.images, effect=tool.effect_of(applied, full=True), settled=True
    )
    second = replace(quick, after=tool.sqnr_of(applied), settled=True)
    assert join_answers(None, quick) is quick
    shown = join_answers(join_answers(quick, full), second)
    assert (shown.images, shown.effect) == (full.images, full.effect)
    assert shown.after is second.after
    other = replace(quick, edits=())
    assert join_answers(shown, other) is other


@pytest.mark.parametrize("name", ["stem.out", "stem.weight"])
def test_bits_keep_the_range_and_moved_back_are_no_edit(editor: Editor, name: str) -> None:
    before = now(editor, (), name)
    edits: book.Edits = (Off("head"),)
    for bits in (7, 5, 4):
        edits = step(editor, edits, name, "bits", bits)
        found = now(editor, edits, name)
        assert (found.bits, edits) == (bits, (Off("head"), SetBits(name, bits)))
        # The ends are whole steps apart, so the range is the same but for the last of them.
        for kept, was in zip(found.representable_range, before.representable_range, strict=True):
            assert np.all(np.abs(kept - was) <= found.scale)
    assert step(editor, edits, name, "bits", before.bits) == (Off("head"),)


def test_bits_are_of_the_range_that_a_person_set(editor: Editor) -> None:
    edits = book.edits_after(
        {"what": "range", "lo": 0, "hi": 3},
        (),
        tensor(editor, "stem.out"),
        now(editor, (), "stem.out"),
    )
    edits = step(editor, edits, "stem.out", "bits", 6)
    found = now(editor, edits, "stem.out")
    assert found.bits == 6
    assert [float(end) for end in found.representable_range] == pytest.approx([0, 3])
    edits = step(editor, edits, "stem.out", "bits", 8)
    assert edits == (SetRange("stem.out", 0.0, pytest.approx(3)),)
    assert book.reset(step(editor, edits, "stem.out", "bits", 4), tensor(editor, "stem.out")) == ()


def test_a_tensor_gets_its_bits_back_from_all_weights(editor: Editor) -> None:
    edits = step(editor, (SetBits("weights", 4),), "stem.weight", "bits", 8)
    assert edits == (SetBits("weights", 4), SetBits("stem.weight", 8))
    assert now(editor, edits, "stem.weight").bits == 8
    assert now(editor, edits, "head.weight").bits == 4


def test_bits_that_are_no_whole_number_are_refused(editor: Editor) -> None:
    with pytest.raises(BadConfigError, match=r"A number of bits is a whole number, not 5\.5"):
        step(editor, (), "stem.out", "bits", 5.5)


def step(editor: Editor, edits: book.Edits, name: str, what: str, value: float) -> book.Edits:
    given = {"what": what, "value": value}
    return book.edits_after(given, edits, tensor(editor, name), now(editor, edits, name))
