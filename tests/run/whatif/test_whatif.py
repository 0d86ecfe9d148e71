"""The effect of edits is what evaluating and comparing the exported model gives."""

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import SHAPE, residual
from suffix_edits import whole_run
from tiny_qdq import TinyQdq, images_of

from quantscope.data import ImageSet, load_sample, stratify
from quantscope.edit import (
    Edit,
    FlipBit,
    Off,
    OffRole,
    SetRange,
    SetScale,
    SetZeroPoint,
)
from quantscope.errors import BadConfigError, BadDataError, BadModelError, StoppedError
from quantscope.model import Execution, bundled_models, open_model
from quantscope.run import compare_evaluations, evaluate
from quantscope.run.compare.compare import compare
from quantscope.run.onnx.seeing import add_outputs
from quantscope.run.onnx.sessions import session_of
from quantscope.run.whatif.whatif import Effect, WhatIf

IMAGES = load_sample().take(60)
BATCH = 12
WAYS: list[tuple[str, Execution, bool | None]] = [
    ("resnet8-int8", "reference", None),
    ("resnet8-uint8", "reference", None),
    ("resnet8-int8", "runtime", None),
    ("resnet8-int8", "runtime", True),
    ("resnet8-uint8", "runtime", None),
]
EDITS: list[list[Edit]] = [
    [SetScale("stem.out", factor=1.4)],
    [SetScale("stack1.conv2.weight", factor=0.7)],
    [SetRange("stack2.add.out", 0.0, 2.0)],
    [Off("stack2.conv1")],
    [SetZeroPoint("stack3.conv1.out", 5), SetScale("pool.out", factor=2.0)],
    [FlipBit("head.weight", (3, 7), 6)],
]


def opened(name: str, execution: Execution = "reference", **how: object) -> WhatIf:
    return WhatIf(name, IMAGES, execution=execution, quick=24, batch=BATCH, **how)


def check_equals_whole_run(what_if: WhatIf, effect: Effect, folder: Path) -> None:
    whole = whole_run(
        effect.applied.proto,
        what_if.quick_images,
        folder,
        execution=what_if.execution,
        int8_kernels=what_if.int8_kernels,
        batch=BATCH,
    )
    np.testing.assert_array_equal(effect.evaluation.scores, whole)


@pytest.mark.parametrize(("name", "execution", "int8_kernels"), WAYS)
def test_scores_are_those_of_the_exported_model(
    name: str, execution: Execution, int8_kernels: bool | None, tmp_path: Path
) -> None:
    what_if = opened(name, execution, int8_kernels=int8_kernels)
    for edits in EDITS:
        check_equals_whole_run(what_if, what_if.answer(edits), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "execution", "int8_kernels"), WAYS)
def test_scores_are_those_of_the_exported_model_for_every_tensor(
    name: str, execution: Execution, int8_kernels: bool | None, tmp_path: Path
) -> None:
    what_if = opened(name, execution, int8_kernels=int8_kernels)
    for edit in every_edit(what_if):
        check_equals_whole_run(what_if, what_if.answer([edit]), tmp_path)


def every_edit(what_if: WhatIf) -> Iterator[Edit]:
    for tensor in what_if.editor.network.tensors:
        if tensor.role != "bias":
            yield SetScale(tensor.name, factor=1.3)
        yield Off(tensor.name)
        if tensor.role == "activation":
            yield SetZeroPoint(tensor.name, int(tensor.params.zero_point) + 1)
        else:
            yield FlipBit(tensor.name, (0,) * len(tensor.shape or ()), 4)


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_a_qoperator_model_is_itself_until_it_is_edited(
    execution: Execution, quantized: Callable[..., Path], tmp_path: Path
) -> None:
    path = quantized(activations="uint8", format="qoperator")
    what_if = WhatIf(path, IMAGES, execution=execution, quick=24, batch=BATCH)
    unedited = what_if.answer([])
    file = evaluate(path, what_if.quick_images, execution=execution, batch=BATCH)
    np.testing.assert_array_equal(unedited.evaluation.scores, file.scores)
    assert unedited.unchanged and not unedited.kernels_changed
    for edits in EDITS[:3]:
        effect = what_if.answer(edits)
        assert effect.applied.lifted
        check_equals_whole_run(what_if, effect, tmp_path)
        np.testing.assert_array_equal(effect.against_base.second.scores, file.scores)


def test_accuracy_and_flips_are_those_of_evaluations(tmp_path: Path) -> None:
    what_if = opened("resnet8-int8")
    effect = what_if.answer([SetScale("stack3.add.out", factor=6.0)])
    digest = effect.applied.save(tmp_path / "edited.onnx")
    data = what_if.quick_images
    how = {"execution": "reference", "batch": BATCH}
    edited = evaluate(tmp_path / "edited.onnx", data, **how)
    base, floats = (evaluate(name, data, **how) for name in ("resnet8-int8", "resnet8"))
    found = effect.evaluation
    assert (found.accuracy, found.loss, found.digest) == (edited.accuracy, edited.loss, digest)
    assert found.provenance == edited.provenance
    assert effect.against_float is not None
    for mine, other in ((effect.against_base, base), (effect.against_float, floats)):
        delta = compare_evaluations(edited, other)
        assert (mine.delta, mine.p_value) == (delta.delta, delta.p_value)
        assert mine.gained.tolist() == delta.gained.tolist()
        assert mine.lost.tolist() == delta.lost.tolist()
        assert mine.per_class == delta.per_class
        np.testing.assert_array_equal(mine.confusion_change, delta.confusion_change)


def test_predictions_of_chosen_images() -> None:
    what_if = opened("resnet8-int8")
    effect = what_if.answer([SetScale("stack3.add.out", factor=6.0)])
    rows = [4, 1]
    indices = [int(what_if.quick_images.indices[row]) for row in rows]
    for row, found in zip(rows, effect.predictions(indices), strict=True):
        assert found.index == what_if.quick_images.indices[row]
        assert found.label == what_if.quick_images.labels[row]
        assert found.edited_class == np.argmax(found.scores)
        assert found.base_class == effect.against_base.second.predictions[row]
    absent = next(i for i in range(10_000) if i not in what_if.quick_images.indices)
    with pytest.raises(BadDataError, match=f"Image {absent} is not among the 24 images"):
        effect.predictions([absent])


def test_full_answers_take_all_images_and_can_be_stopped(tmp_path: Path) -> None:
    what_if = opened("resnet8-uint8")
    edits = EDITS[3]
    seen: list[tuple[str, int, int]] = []
    effect = what_if.answer(edits, full=True, progress=lambda *step: seen.append(step))
    assert effect.evaluation.images == effect.against_base.second.images == len(IMAGES)
    assert ("Evaluating the edited model", 60, 60) in seen
    own = {"Evaluating the unedited model", "Evaluating the edited model"}
    assert {what for what, _, _ in seen} == own
    against = effect.find_against_float(lambda *step: seen.append(step))
    assert against is not None and against.second.images == len(IMAGES)
    assert {what for what, _, _ in seen} == {*own, "Evaluating the float model"}
    whole = whole_run(effect.applied.proto, IMAGES, tmp_path, execution="reference", batch=BATCH)
    np.testing.assert_array_equal(effect.evaluation.scores, whole)

    def stop(what: str, done: int, total: int) -> None:
        raise StoppedError("enough")

    with pytest.raises(StoppedError):
        what_if.answer(EDITS[0], full=True, progress=stop)
    with pytest.raises(StoppedError):
        what_if.downstream_sqnr(EDITS[0], full=True, progress=stop)
    assert what_if.answer(EDITS[0], full=True).evaluation.images == len(IMAGES)


def test_quick_images_have_the_classes_of_all_and_are_always_the_same() -> None:
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    rng = np.random.default_rng(0)
    rng.shuffle(labels)
    data = ImageSet.of_images(
        "made up", np.zeros((100, 2)), labels, np.arange(100), ("a", "b", "c"), "as-is"
    )
    few = stratify(data, 20)
    assert few.class_counts() == {"a": 12, "b": 6, "c": 2}
    assert few.indices.tolist() == sorted(stratify(data, 20).indices.tolist())
    assert stratify(data, 1000) is data
    with pytest.raises(BadConfigError, match="at least one image"):
        stratify(data, 0)


def test_an_edit_that_changes_nothing_says_so() -> None:
    what_if = opened("resnet8-uint8")
    same = what_if.answer([SetScale("stack1.add.out", factor=1.0)])
    assert same.unchanged and same.against_base.delta == 0
    assert what_if.answer([]).unchanged
    assert not what_if.answer([SetScale("stack1.add.out", factor=1.2)]).unchanged


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_kernels_that_an_edit_changes_are_named(execution: Execution) -> None:
    what_if = opened("resnet8-uint8", execution)
    assert what_if.answer([SetScale("stack2.conv1.out", factor=1.4)]).kernels_changed == ()
    changed = what_if.answer([Off("stack2.conv1.out")]).kernels_changed
    by_layer = {layer: (before, after) for layer, before, after in changed}
    assert set(by_layer) == {"stack2.conv1", "stack2.conv2"}
    before, after = by_layer["stack2.conv2"]
    assert before.startswith("integer QLinearConv")
    assert after.startswith("float")


@pytest.mark.parametrize(("name", "execution", "int8_kernels"), WAYS)
@pytest.mark.parametrize("zero_point", [3, (3, *[0] * 31)])
def test_weights_with_a_zero_point_stay_in_integer_kernels(
    name: str, execution: Execution, int8_kernels: bool | None, zero_point: int | tuple[int, ...]
) -> None:
    """What the warning about them does not say, because it is not so."""
    what_if = opened(name, execution, int8_kernels=int8_kernels)
    assert what_if.answer([SetZeroPoint("stack2.conv1.weight", zero_point)]).kernels_changed == ()


def test_an_effect_becomes_json() -> None:
    what_if = opened("resnet8-uint8")
    edits = [SetZeroPoint("stem.out", 9), Off("stack2.conv1")]
    found = json.loads(json.dumps(what_if.answer(edits).to_dict(), allow_nan=False))
    assert found["edits"][0]["in_words"] == "zero-point of stem.out = 9"
    assert "negative values" in found["warnings"][0]["text"]
    assert found["evaluation"]["images"] == 24
    assert {"per_class", "confusion_change", "gained", "lost"} <= found["against_base"].keys()
    assert found["kernels_changed"][0].keys() == {"layer", "before", "after"}
    off = next(change for change in found["changes"] if change["tensor"] == "stack2.conv1.out")
    assert off["after"] is None and off["before"]["dtype"] == "uint8"
    sqnr = what_if.downstream_sqnr(edits).to_dict()
    assert json.loads(json.dumps(sqnr, allow_nan=False))["downstream"][0]["name"] == "stem.out"


def check_same(found: float | None, wanted: float | None) -> None:
    """None where there is no error."""
    assert found == (None if wanted is None else pytest.approx(wanted, rel=1e-9))


@pytest.mark.parametrize(
    ("name", "execution", "int8_kernels"),
    # For int8 as the platform has it, `compare` looks at tensors one by one, which takes long.
    [pytest.param(*way, marks=[pytest.mark.slow] * (way == WAYS[2])) for way in WAYS],
)
def test_sqnrs_downstream_are_those_of_a_comparison(
    name: str, execution: Execution, int8_kernels: bool | None, tmp_path: Path
) -> None:
    what_if = opened(name, execution, int8_kernels=int8_kernels)
    data = what_if.quick_images
    how = {"execution": execution, "int8_kernels": int8_kernels, "detail": "sqnr"}
    before = compare(name, data, **how)
    for edits in (EDITS[2], EDITS[3], EDITS[0]):
        path = tmp_path / "edited.onnx"
        what_if.editor.apply(edits).save(path)
        wanted = compare(path, data, float_model="resnet8", **how)
        found = what_if.downstream_sqnr(edits)
        rows = {tensor.name: tensor.sqnr_db for tensor in found.tensors}
        for tensor in wanted.activations:
            check_same(rows[tensor.name], tensor.sqnr_db)
        for tensor in before.activations:
            check_same(found.before[tensor.name].sqnr_db, tensor.sqnr_db)
        assert found.output.kl_nats == pytest.approx(wanted.output.kl_nats)
        assert found.output.changed.tolist() == wanted.output.changed.tolist()


def test_only_what_is_downstream_is_said_to_change() -> None:
    what_if = opened("resnet8-uint8")
    found = what_if.downstream_sqnr([SetScale("stack3.conv1.out", factor=2.0)])
    assert found.downstream == (
        *("stack3.conv1.out", "stack3.conv2.out", "stack3.add.out"),
        *("pool.out", "flatten.out", "head.out"),
    )
    assert [name for name, _, _ in found.changes] == list(found.downstream)
    before = {tensor.name: tensor for tensor in found.before.tensors}
    for tensor in found.tensors:
        if tensor.name not in found.downstream:
            assert tensor is before[tensor.name]
    assert what_if.downstream_sqnr([]).downstream == ()


def value_of(model: onnx.ModelProto, name: str, images: ImageSet) -> np.ndarray:
    session = session_of(add_outputs(model, [name]), "reference")
    return session.run([name], {"input": images.images.astype(np.float32)})[0].astype(np.float64)


# A ReLU is put back in the first place; in the second there was none.
@pytest.mark.parametrize(
    ("tensor", "value", "float_value"),
    [
        ("stack2.conv1.out", "stack2.relu1.out_DequantizeLinear_Output", "stack2.relu1.out"),
        ("stack2.conv2.out", "stack2.conv2.out", "stack2.conv2.out"),
    ],
)
def test_a_tensor_switched_off_still_has_an_sqnr(tensor: str, value: str, float_value: str) -> None:
    what_if = opened("resnet8-uint8")
    found = what_if.downstream_sqnr([Off(tensor)])
    now = value_of(what_if.editor.apply([Off(tensor)]).proto, value, what_if.quick_images)
    floats = onnx.load(bundled_models()["resnet8"])
    wanted = value_of(floats, float_value, what_if.quick_images)
    sqnr = 10 * np.log10((wanted**2).sum() / ((now - wanted) ** 2).sum())
    assert found[tensor].sqnr_db == pytest.approx(sqnr, abs=1e-4)
    assert found[tensor].bits == 32
    assert found.unseen == ()


def test_what_is_switched_off_cannot_be_seen_in_runtime_execution() -> None:
    found = opened("resnet8-uint8", "runtime").downstream_sqnr([Off("stack2.conv1.out")])
    assert [(u.name, u.reason) for u in found.unseen] == [
        ("stack2.conv1.out", "it is not quantized any more")
    ]


def test_the_scores_are_the_last_tensor_whatever_kernels_make_them(tmp_path: Path) -> None:
    """Among the outputs its integers would change the last kernel; they are not needed there."""
    what_if = opened("resnet8-int8", "runtime", int8_kernels=False)
    edits = [SetScale("head.weight", factor=1.3)]
    found, path = what_if.downstream_sqnr(edits), tmp_path / "edited.onnx"
    what_if.editor.apply(edits).save(path)
    original = evaluate("resnet8", what_if.quick_images, execution="reference").scores
    for model, row in (("resnet8-int8", found.before["head.out"]), (path, found["head.out"])):
        shipped = evaluate(model, what_if.quick_images, execution="runtime", int8_kernels=False)
        noise = np.linalg.norm(shipped.scores - original)
        sqnr = 20 * np.log10(np.linalg.norm(original) / noise)
        assert row.sqnr_db == pytest.approx(sqnr, abs=1e-3)
    assert found.before["head.out"].sqnr_db != found["head.out"].sqnr_db


def test_without_a_float_model_the_quantizers_are_off(tmp_path: Path) -> None:
    path = residual().save_quantized(tmp_path)
    rng = np.random.default_rng(4)
    what_if = WhatIf(path, images_of(rng.normal(0, 1, (20, *SHAPE)).astype(np.float32)), quick=9)
    effect = what_if.answer([SetScale("conv.out", factor=2.0)])
    assert effect.against_float is None
    assert effect.to_dict()["against_float"] is None
    edit = SetScale("conv.out", factor=2.0)
    effect.applied.save(tmp_path / "edited.onnx")
    stand_in = open_model(path).stand_in
    wanted = compare(
        tmp_path / "edited.onnx", what_if.quick_images, float_model=stand_in, detail="sqnr"
    )
    found = what_if.downstream_sqnr([edit])
    assert found.float_model == f"{path.name} with every quantizer off"
    assert "conv.out" in found.downstream
    for tensor in found.activations:
        assert tensor.sqnr_db == pytest.approx(wanted[tensor.name].sqnr_db, abs=1e-3)


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_another_network_with_a_residual(execution: Execution, tmp_path: Path) -> None:
    net = residual()
    path, floats = net.save_quantized(tmp_path), net.save_float(tmp_path)
    rng = np.random.default_rng(4)
    images = images_of(rng.normal(0, 1, (20, *SHAPE)).astype(np.float32))
    how = {"float_model": floats, "execution": execution}
    what_if = WhatIf(path, images, quick=20, batch=BATCH, **how)
    for tensor in what_if.editor.network.tensors:
        effect = what_if.answer([SetScale(tensor.name, factor=1.5)])
        check_equals_whole_run(what_if, effect, tmp_path)
        edited = tmp_path / "saved.onnx"
        effect.applied.save(edited)
        wanted = compare(edited, images, detail="sqnr", **how)
        found = what_if.downstream_sqnr([SetScale(tensor.name, factor=1.5)])
        rows = {tensor.name: tensor.sqnr_db for tensor in found.tensors}
        for other in wanted.activations:
            check_same(rows[other.name], other.sqnr_db)


def test_a_network_without_any_cut(tmp_path: Path) -> None:
    """Each layer reads all before it, as in a DenseNet, and the scores read all of them."""
    rng = np.random.default_rng(2)
    net = TinyQdq((4, 3, 3))
    read = [net.quantize("x", 0.05, 128)]
    for number in range(3):
        width = 4 + 2 * number
        net.node("Concat", list(read), f"cat{number}", axis=1)
        weights = rng.integers(-90, 90, (2, width, 1, 1)).astype(np.int8)
        net.stored(f"w{number}", weights, np.full(2, 0.01))
        net.node("Conv", [f"cat{number}", f"w{number}"], f"y{number}")
        read.append(net.quantize(f"y{number}", 0.06, 120))
    net.node("Concat", read, "all", axis=1)
    net.node("GlobalAveragePool", ["all"], "pooled")
    net.node("Flatten", ["pooled"], "scores")
    path = net.save(tmp_path, "scores")
    images = images_of(rng.normal(0, 2, (15, 4, 3, 3)).astype(np.float32))
    what_if = WhatIf(path, images, quick=15, batch=BATCH)
    for tensor in what_if.editor.network.tensors:
        effect = what_if.answer([SetScale(tensor.name, factor=1.5)])
        check_equals_whole_run(what_if, effect, tmp_path)


def test_nothing_of_the_person_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(bundled_models()["resnet8-uint8"].read_bytes())
    before = path.read_bytes()
    what_if = WhatIf(path, IMAGES, float_model="resnet8", quick=10)
    base = what_if.editor.base.SerializeToString(deterministic=True)
    what_if.answer([OffRole("weights")])
    what_if.downstream_sqnr([OffRole("activations")])
    assert path.read_bytes() == before
    assert what_if.editor.base.SerializeToString(deterministic=True) == base
    onnx.checker.check_model(what_if.answer([Off("stem")]).applied.proto)


def test_float_weights_get_a_line_that_says_how_to_go_on() -> None:
    with pytest.raises(BadModelError, match=r"no parameters to edit; make a quantized program of"):
        WhatIf("resnet8-torch", IMAGES)


@pytest.mark.parametrize(("name", "execution", "int8_kernels"), WAYS)
def test_quick_answers_start_from_what_fits_the_playgrounds_limit(
    name: str, execution: Execution, int8_kernels: bool | None
) -> None:
    """128 MB for 256 images, and what an edit needs besides."""
    runner: Any = opened(name, execution, int8_kernels=int8_kernels).runner()
    sizes = runner.suffix.kept_bytes_an_image
    spare = 4 * 65_536
    assert (sum(sizes.values()) + spare) * 256 < 128 << 20


def test_what_is_kept_has_a_limit(tmp_path: Path) -> None:
    what_if = opened("resnet8-uint8", kept_bytes_limit=100_000)
    for edits in EDITS:
        check_equals_whole_run(what_if, what_if.answer(edits), tmp_path)
        what_if.downstream_sqnr(edits)
        assert what_if.kept_bytes <= 100_000


def resident_mb() -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("resident memory is read from /proc, which only Linux has")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_a_thousand_edits_do_not_grow_memory(execution: Execution) -> None:
    what_if = opened("resnet8-uint8", execution)
    names = [t.name for t in what_if.editor.network.tensors if t.role == "activation"]
    grown = []
    for number in range(1000):
        tensor = names[number % len(names)]
        what_if.answer([SetScale(tensor, factor=1 + number / 5000)])
        if number in (199, 999):
            gc.collect()
            grown.append(resident_mb())
    assert grown[1] - grown[0] < 20
    assert what_if.kept_bytes < 24 * 400_000
