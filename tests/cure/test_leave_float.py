"""Layers that are left float: which are meant, and in which order they pay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted import Plant, Planted, convnet, convnet_weights

from quantscope.cure import DoesNotApplyError, exclusion_list, leave_float
from quantscope.data import load_sample
from quantscope.edit import Edit, Editor, Off, SetBits
from quantscope.errors import QuantscopeError
from quantscope.run import open_runnable


def narrow(path: Path) -> None:
    """Give the weights 4 bits and those of one layer 2, in the file itself."""
    edits = [SetBits("weights", 4), SetBits("conv2.weight", 2)]
    path.write_bytes(Editor(path).apply(edits).to_bytes())


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Plant(tmp_path).make(convnet(convnet_weights()), change=narrow)


@pytest.fixture
def editor(planted: Planted) -> Editor:
    return Editor(planted.quantized, planted.floats)


def test_the_ranking_is_that_of_each_layer_switched_off_alone(
    editor: Editor, planted: Planted, tmp_path: Path
) -> None:
    feeds = {"x": planted.calibration.arrays["x"]}
    wanted = open_runnable(planted.floats, execution="reference").run(feeds)["y"]

    def error(edits: list[Edit]) -> float:
        editor.apply(edits).save(tmp_path / "off.onnx")
        given = open_runnable(tmp_path / "off.onnx", execution="reference").run(feeds)["y"]
        return float(np.square(given.astype(np.float64) - wanted).sum())

    gains = {
        name: 10 * np.log10(error([]) / error([Off(name)])) for name in ("conv1", "conv2", "head")
    }
    cure = leave_float(editor, planted.calibration, most=3)
    ranked = sorted((name for name in gains if gains[name] > 0), key=lambda name: -gains[name])
    assert [each.where for each in cure.treated] == ranked and ranked[0] == "conv2"
    assert cure.edits == tuple(Off(name) for name in ranked)
    for each in cure.treated:
        assert each.numbers["sqnr_gain_db"] == pytest.approx(gains[each.where], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("targets", "layers"),
    [
        (["head"], ["head"]),
        (["Conv"], ["conv1", "conv2"]),
        (["Gemm", "conv1"], ["head", "conv1"]),
    ],
)
def test_layers_are_named_by_themselves_or_by_their_operator(
    editor: Editor, planted: Planted, targets: list[str], layers: list[str]
) -> None:
    cure = leave_float(editor, planted.calibration, targets=targets)
    assert cure.edits == tuple(Off(name) for name in layers)
    assert exclusion_list(cure).splitlines()[1:] == layers


def test_blocks_are_the_beginnings_of_names() -> None:
    cure = leave_float("resnet8-int8", load_sample().take(2), targets=["stack3"])
    assert {edit.target for edit in cure.edits if isinstance(edit, Off)} >= {
        "stack3.conv1",
        "stack3.conv2",
        "stack3.shortcut",
    }


def test_more_bits_in_place_of_none(editor: Editor, planted: Planted) -> None:
    cure = leave_float(editor, planted.calibration, targets=["conv2"], bits=8)
    assert cure.kind == "8 bits" and cure.edits == (SetBits("conv2", 8),)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"most": 0}, "0 layers are to be left float; give 1 or more"),
        (
            {"targets": ["conv9"]},
            r"No layer, block or operator 'conv9' in .*; closest: ",
        ),
    ],
)
def test_bad_wishes_are_one_line(
    editor: Editor, planted: Planted, wishes: dict[str, Any], why: str
) -> None:
    with pytest.raises(QuantscopeError, match=why):
        leave_float(editor, planted.calibration, **wishes)


def test_where_everything_is_float_no_layer_helps(editor: Editor, planted: Planted) -> None:
    everything = [Off(tensor.name) for tensor in editor.network.tensors]
    with pytest.raises(DoesNotApplyError, match="none of 3 layers alone brings the outputs nearer"):
        leave_float(editor, planted.calibration, most=1, edits=everything)
