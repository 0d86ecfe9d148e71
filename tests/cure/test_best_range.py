"""Best ranges, held against NumPy that tries many on the values themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from planted import Plant, Planted, convnet, convnet_weights

from quantscope.arithmetic import QuantParams, dequantize, params_from_range, quantize
from quantscope.cure import DoesNotApplyError, choose_ranges, correct_biases
from quantscope.edit import Editor, Off, SetBits, SetRange, SetScale
from quantscope.errors import QuantscopeError
from quantscope.run import open_runnable

Array = np.ndarray[Any, Any]


def narrow(path: Path) -> None:
    """Give weights 4 bits and activations 5, in the file itself."""
    edits = [SetBits("weights", 4), SetBits("activations", 5)]
    path.write_bytes(Editor(path).apply(edits).to_bytes())


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Plant(tmp_path).make(convnet(convnet_weights()), change=narrow)


@pytest.fixture
def editor(planted: Planted) -> Editor:
    return Editor(planted.quantized, planted.floats)


def error(values: Array, params: QuantParams) -> float:
    back = dequantize(quantize(values.astype(np.float32), params), params)
    return float(np.square(back.astype(np.float64) - values).mean())


def params_after(editor: Editor, edits: Any) -> dict[str, QuantParams]:
    now = {t.name: t.params for t in editor.network.tensors}
    return now | {c.tensor: c.after for c in editor.apply(edits).changes if c.after is not None}


def test_no_range_of_a_weight_is_better_than_the_chosen_one(
    editor: Editor, planted: Planted
) -> None:
    cure = choose_ranges(editor, planted.calibration, targets=["weights"])
    stored = {t.name: t for t in onnx.load(planted.floats).graph.initializer}
    now = params_after(editor, cure.edits)
    for name in ("conv1.weight", "conv2.weight", "head.weight"):
        for channel, values in enumerate(numpy_helper.to_array(stored[name])):
            scale = float(now[name].scale.reshape(-1)[channel])
            params = QuantParams(scale, 0, now[name].dtype, ends=now[name].ends)
            largest = np.abs(values).max()
            tried = [
                error(values, params_from_range(-end, end, params.dtype, symmetric=True))
                for end in np.linspace(0.3, 1.1, 60) * largest
            ]
            assert error(values, params) <= 1.03 * min(tried)


def test_no_range_of_an_activation_is_better_than_the_chosen_one(
    editor: Editor, planted: Planted
) -> None:
    cure = choose_ranges(editor, planted.calibration, targets=["activations"])
    pairs = editor.against[1].by_name
    floats = open_runnable(planted.floats, execution="reference")
    feeds = {"x": planted.calibration.arrays["x"]}
    now = params_after(editor, cure.edits)
    chosen = [edit.tensor for edit in cure.edits if isinstance(edit, SetRange)]
    assert len(chosen) >= 3
    for name in chosen:
        before = editor.network.tensor(name).params
        value = pairs[name].float_name
        values = floats.values([value], feeds)[value]
        low, high = min(values.min(), 0.0), max(values.max(), 0.0)
        tried = [
            error(values, params_from_range(low * share, high * share, "uint8", ends=before.ends))
            for share in np.linspace(0.3, 1.0, 60)
        ]
        # It is told from counts, which say less of a few hundred values than of thousands.
        assert error(values, now[name]) <= (1.02 if values.size > 2000 else 1.15) * min(tried)
        assert error(values, now[name]) < error(values, before)


def test_the_errors_that_are_told_are_those_of_the_values(editor: Editor, planted: Planted) -> None:
    cure = choose_ranges(editor, planted.calibration, targets=["conv2.weight"])
    (told,) = cure.treated
    values = editor.float_values("conv2.weight")
    now = params_after(editor, cure.edits)["conv2.weight"]
    assert told.where == "conv2.weight"
    assert told.numbers["rounding"] + told.numbers["clipping"] == pytest.approx(error(values, now))
    before = editor.network.tensor("conv2.weight").params
    assert told.numbers["today"] == pytest.approx(error(values, before))


def test_a_range_ten_times_too_wide_is_found_and_mended(editor: Editor, planted: Planted) -> None:
    wide = [SetRange("add.out", 0, 100)]
    cure = choose_ranges(editor, planted.calibration, targets=["add.out"], edits=wide)
    (edit,) = cure.edits
    assert isinstance(edit, SetRange) and edit.hi < 15
    assert (cure.after[-1].sqnr_db or 0) > (cure.before[-1].sqnr_db or 0)


def test_a_range_by_effect_brings_the_outputs_nearer(editor: Editor, planted: Planted) -> None:
    def output_error(edits: Any) -> float:
        found = editor.apply(edits)
        path = planted.floats.parent / "tried.onnx"
        found.save(path)
        feeds = {"x": planted.calibration.arrays["x"]}
        one, two = (
            open_runnable(p, execution="reference").run(feeds) for p in (path, planted.floats)
        )
        return float(np.square(one["y"] - two["y"]).mean())

    cure = choose_ranges(editor, planted.calibration, targets=["head", "conv2"], by="effect")
    assert output_error(cure.edits) < output_error([])
    for told in cure.treated:
        now = told.numbers["rounding"] + told.numbers["clipping"]
        word = "less" if now <= told.numbers["today"] else "more"
        assert f" dB {word} error of its own" in told.what


def test_tensors_that_share_a_scale_get_one_range(tmp_path: Path) -> None:
    planted = Plant(tmp_path).make(convnet(convnet_weights()), change=narrow)
    editor = Editor(planted.quantized, planted.floats)
    mates = {t.name: editor.scale_mates(t.name) for t in editor.network.tensors}
    shared = next(name for name, others in mates.items() if others)
    cure = choose_ranges(editor, planted.calibration, targets=[shared, *mates[shared]])
    assert len(cure.edits) <= 1
    for each in (*cure.treated, *cure.left_out):
        assert each.where == shared


def test_what_is_switched_off_or_chosen_already_is_left_as_it_is(
    editor: Editor, planted: Planted
) -> None:
    cure = choose_ranges(
        editor,
        planted.calibration,
        targets=["conv1.weight", "conv2.weight"],
        edits=[Off("conv1.weight")],
    )
    assert {each.where: each.why for each in cure.left_out} == {
        "conv1.weight": "it is switched off"
    }
    with pytest.raises(
        DoesNotApplyError, match="none of 1 ranges is changed; its range is the best"
    ):
        choose_ranges(editor, planted.calibration, targets=["conv2.weight"], edits=cure.edits)


def test_biases_are_corrected_on_top(editor: Editor, planted: Planted) -> None:
    first = choose_ranges(editor, planted.calibration)
    second = correct_biases(editor, planted.calibration, edits=first.edits)
    assert second.before == first.after
    assert any(isinstance(edit, SetScale) for edit in first.edits)


@pytest.mark.parametrize(
    ("targets", "by", "why"),
    [
        (["conv1.bias"], "mean square", "Best range does not apply to conv1.bias: a bias has"),
        (["stem"], "mean square", "No layer or quantized tensor 'stem'"),
        ([], "luck", "A range is chosen by 'mean square' or by 'effect', not by 'luck'"),
    ],
)
def test_what_has_no_range_is_one_line(
    editor: Editor, planted: Planted, targets: list[str], by: Any, why: str
) -> None:
    with pytest.raises(QuantscopeError, match=why):
        choose_ranges(editor, planted.calibration, targets=targets, by=by)
