"""What the What-if widgets are told of a model with edits."""

from base64 import b64decode
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from quantscope.app.opened import open_pair
from quantscope.app.panes.sample_rows import thumbnail_of
from quantscope.app.panes.what_if.pane import why_not
from quantscope.app.panes.what_if.specs import Situation, hist_data, qparam_spec
from quantscope.app.panes.what_if.switches import edit_items, switch_items
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.data import load_sample
from quantscope.edit import Edit, Editor, Off, OffRole, SetRange, SetScale

Look = Callable[..., Situation]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(open_pair("resnet8-int8"))


@pytest.fixture(scope="module")
def look(session: Session) -> Look:
    editor = Editor("resnet8-int8")

    def at(layer: str | None, tensor: str | None, *edits: Edit) -> Situation:
        return Situation(session, editor, editor.apply(edits), Selection(layer, tensor))

    return at


def states(at: Situation) -> dict[str, str]:
    main, layers = switch_items(at)
    return {item["label"]: item["state"] for item in (*main, *layers)}


def test_a_spec_says_what_is_and_what_was(look: Look) -> None:
    spec = qparam_spec(look("stem", "stem.out", SetScale("stem.out", 0.1)), seen=3)
    assert (spec["tensor"], spec["seen"], spec["channels"]) == ("stem.out", 3, 0)
    assert spec["scale"] == 0.1
    assert np.float32(spec["base_scale"]) == look("stem", "stem.out").tensor.params.scale
    assert (spec["zero_point"], spec["qmin"], spec["qmax"]) == (-128, -128, 127)
    assert (spec["lo"], spec["hi"]) == pytest.approx((0, 25.5))
    assert spec["changed"]
    assert not spec["locked"]


def test_channels_have_a_factor_and_scales_of_their_own(look: Look) -> None:
    edits = (SetScale("stem.weight", factor=2.0),)
    spec = qparam_spec(look("stem", "stem.weight", *edits), seen=0)
    assert (spec["channels"], spec["factor"]) == (16, 2.0)
    assert np.allclose(spec["scales"], 2 * np.asarray(spec["base_scales"]))
    assert "scale" not in spec


def test_a_bias_is_locked_and_says_what_it_follows(look: Look) -> None:
    spec = qparam_spec(look("stem", "stem.bias"), seen=0)
    assert "counts in steps of input times stem.weight" in spec["locked"]


def test_a_tensor_that_is_off_shows_the_parameters_it_would_have(look: Look) -> None:
    at = look("stem", "stem.out", SetScale("stem.out", 0.1), Off("stem.out"))
    spec = qparam_spec(at, seen=0)
    assert spec["locked"] == "It is not quantized now; switch it on to change its parameters."
    assert spec["scale"] == 0.1


def test_remarks_stand_at_the_tensor_whose_edit_they_are_of(look: Look) -> None:
    edits = (SetRange("stem.out", -1.0, 5.0), SetScale("head.weight", factor=2.0))
    remarks = qparam_spec(look("stem", "stem.out", *edits), seen=0)["remarks"]
    assert [remark["kind"] for remark in remarks] == ["warning", "moved"]
    assert "would let negative values through" in remarks[0]["text"]
    assert remarks[1]["text"] == "Biases that follow: stack1.conv1.bias."
    remarks = qparam_spec(look("head", "head.weight", *edits), seen=0)["remarks"]
    assert [remark["text"] for remark in remarks] == ["Biases that follow: head.bias."]
    assert not qparam_spec(look("pool", "pool.out", *edits), seen=0)["remarks"]


def test_what_moved_along_says_so_where_it_is_looked_at(look: Look) -> None:
    edits = (SetScale("pool.out", factor=2.0),)
    moved = qparam_spec(look("pool", "pool.out", *edits), seen=0)["remarks"]
    assert any("sharing its parameters: flatten.out" in remark["text"] for remark in moved)
    shared = qparam_spec(look("flatten", "flatten.out", *edits), seen=0)["remarks"]
    assert shared[0]["text"] == "It moved along with a tensor that shares its parameters."


def test_a_layer_without_parameters_says_so(look: Look) -> None:
    spec = qparam_spec(look("head", None), seen=0)
    assert "nothing to change here" in spec["locked"]


def test_switches_know_what_is_on_and_what_is_partly_so(look: Look) -> None:
    found = states(look("stem", "stem.out", Off("stem.out")))
    assert found["stem.out"] == "off"
    assert found["layer stem"] == found["all activations"] == "some"
    assert found["all weights"] == "on"
    found = states(look("stem", "stem.out", OffRole("activations")))
    assert found["all activations"] == found["pool"] == "off"
    assert found["all weights"] == "on"  # the biases of its readers stay quantized
    assert set(states(look("stem", "stem.out")).values()) == {"on"}


def test_a_histogram_has_the_range_that_is_in_force(session: Session, look: Look) -> None:
    assert hist_data(look("stem", "stem.out"))["message"] == "Its values are being counted…"
    list(session.count_values(session.quick))
    data = hist_data(look("stem", "stem.out", SetRange("stem.out", 0.0, 5.1)))
    assert data["movable"]
    assert (data["lo"], data["hi"]) == pytest.approx((0, 5.1))
    assert data["base_hi"] == pytest.approx(17.9, abs=0.1)
    assert len(data["edges"]) == len(data["counts"]) + 1 == len(data["drawn"]) + 1
    assert sum(data["counts"]) == data["values"] == len(session.quick) * 16 * 32 * 32
    data = hist_data(look("stem", "stem.weight"))
    assert not data["movable"]
    assert sum(data["counts"]) == data["values"] == 16 * 3 * 3 * 3
    data = hist_data(look("head", "head.bias"))
    assert data["message"].startswith("A bias is stored in 32 bits")


def test_edits_are_told_in_a_line_each_with_their_warning(session: Session, look: Look) -> None:
    weight = look("stem", "stem.weight").tensor.params.scale
    scales = (0.5, *map(float, weight[1:]))
    edits = (
        SetScale("stem.weight", scales),
        SetRange("stem.out", -1.0, 5.0),
        Off("stack1.conv1"),
        OffRole("weights"),
    )
    items = edit_items(session, look("stem", "stem.out", *edits).applied)
    assert [item["text"] for item in items] == [
        "scale of channel 0 of stem.weight = 0.5",
        "range of stem.out = [-1, 5]",
        "stack1.conv1 not quantized",
        "all weights not quantized",
    ]
    assert "negative values" in items[1]["warning"]
    assert items[2]["select"] == {"layer": "stack1.conv1", "tensor": "stack1.conv1.out"}
    assert items[3]["select"] is None


def test_a_thumbnail_is_the_image_pixel_by_pixel() -> None:
    images = load_sample().take(3)
    kind, _, content = thumbnail_of(images, 2)["src"].partition(",")
    assert kind == "data:image/png;base64"
    pixels = matplotlib.image.imread(BytesIO(b64decode(content)), format="png")
    assert np.array_equal(np.rint(pixels * 255), images.images[2].transpose(1, 2, 0))


def test_models_that_cannot_be_edited_say_why() -> None:
    assert not why_not(Session(open_pair("resnet8-int8")))
    assert "is a float model: it has no scales" in why_not(Session(open_pair("resnet8")))


def test_a_qoperator_file_is_edited_as_qdq_and_says_so(quantized: Callable[..., Path]) -> None:
    path = quantized(format="qoperator", activations="uint8")
    opened = open_pair(path, "resnet8")
    assert not why_not(Session(opened))
    applied = Editor(path, float_model=opened.float_path).apply(())
    assert any("stated as QDQ first" in note for note in applied.notes)
