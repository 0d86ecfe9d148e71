"""Several cures in turn, measured on samples that they have not seen."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from planted import Plant, Planted, convnet, convnet_weights, rows

import small_networks
from quantscope.cure import CURES, DoesNotApplyError, Readings, check_apart, take_course
from quantscope.data import Samples
from quantscope.edit import Editor, OffRole, SetBits
from quantscope.errors import BadConfigError, BadDataError
from quantscope.run import evaluate, open_runnable

BIASES = {"bias correction": CURES["bias correction"]}


def narrow(path: Path) -> None:
    """Give the weights 2 bits, in the file itself."""
    path.write_bytes(Editor(path).apply([SetBits("weights", 2)]).to_bytes())


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Plant(tmp_path).make(convnet(convnet_weights()), change=narrow)


def test_the_exported_model_gives_what_was_measured_bit_for_bit(
    planted: Planted, tmp_path: Path
) -> None:
    editor = Editor(planted.quantized, planted.floats)
    course = take_course(editor, CURES, planted.calibration, planted.samples)
    course.applied.save(tmp_path / "cured.onnx")
    feeds = {"x": planted.samples.arrays["x"]}
    (exported,) = open_runnable(tmp_path / "cured.onnx", execution="reference").run(feeds).values()
    (shown,) = course.steps[-1].evaluation.outputs.values()
    assert np.array_equal(exported, shown)


def test_each_step_is_measured_against_the_one_before_and_the_first(planted: Planted) -> None:
    editor = Editor(planted.quantized, planted.floats)
    course = take_course(editor, BIASES, planted.calibration, planted.samples, measure="agreement")
    (step,) = course.steps
    base = evaluate(planted.quantized, planted.samples, execution="reference", measure="agreement")
    assert course.base.score.value == base.score.value
    assert step.added.delta == pytest.approx(step.evaluation.score.value - base.score.value)
    assert step.in_all.delta == step.added.delta


def test_calibration_rows_among_those_that_are_judged_by_are_refused(planted: Planted) -> None:
    both = Samples.from_arrays(
        "both",
        {
            "x": np.concatenate(
                [planted.samples.arrays["x"][:90], planted.calibration.arrays["x"][:10]]
            )
        },
    )
    with pytest.raises(BadDataError, match="10 of the 64 images of rows 2 are among those that"):
        take_course(planted.quantized, BIASES, planted.calibration, both)
    take_course(
        planted.quantized,
        BIASES,
        planted.calibration,
        both,
        float_model=planted.floats,
        allow_same_samples=True,
    )


def test_rows_that_are_others_go_together() -> None:
    check_apart(rows(30, seed=1), rows(30, seed=2))


def test_no_cure_and_none_that_applies_are_one_line_each(planted: Planted) -> None:
    with pytest.raises(BadConfigError, match="No cure is named; give at least one"):
        take_course(planted.quantized, {}, planted.calibration, planted.samples)
    with pytest.raises(DoesNotApplyError, match="no channel is shifted by half a step"):
        take_course(
            planted.quantized,
            BIASES,
            planted.calibration,
            planted.samples,
            float_model=planted.floats,
            edits=[OffRole("weights"), OffRole("activations")],
        )


def chain() -> onnx.ModelProto:
    """The small network without its branch, to which every cure has something to do."""
    proto = convnet(convnet_weights())
    (add,) = (node for node in proto.graph.node if node.op_type == "Add")
    (after,) = (node for node in proto.graph.node if node.input[0] == add.output[0])
    after.input[0] = add.input[1]
    proto.graph.node.remove(add)
    return proto


@pytest.mark.parametrize("kind", list(CURES))
def test_every_cure_sees_a_qoperator_file_as_what_it_states(kind: str, tmp_path: Path) -> None:
    """Its layers give integers; what is held against the float layers is what those stand for."""
    planted = Plant(tmp_path).make(chain(), format="qoperator", per_channel=False)
    editor = Editor(planted.quantized, planted.floats)
    cure = CURES[kind](Readings(editor, planted.calibration), planted.calibration)
    assert all((each.sqnr_db or 0) > 20 for each in cure.before)
    assert all(each.error == 0 or (each.sqnr_db or 0) > 20 for each in cure.after)


@pytest.mark.parametrize("kind", list(CURES))
def test_a_dynamically_quantized_file_is_refused_with_the_reason(kind: str, tmp_path: Path) -> None:
    quantized = small_networks.quantized("mobile", "dynamic", tmp_path)
    floats = small_networks.float_path("mobile", tmp_path)
    samples = Samples.from_arrays("rows", small_networks.feeds("mobile", 2))
    with pytest.raises(DoesNotApplyError, match="not apply to mobile-dynamic") as refusal:
        CURES[kind](Readings(Editor(quantized, floats), samples), samples)
    assert len(str(refusal.value)) < 500
