"""The effect of edits on a PyTorch program is what evaluating and comparing the saved one gives."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison_nets import QUANTIZERS, Residual, residual
from tiny_qdq import images_of
from torch_nets import NAMES, FloatNet, QuantizedNet, save

from quantscope.data import ImageSet, load_sample
from quantscope.edit import (
    Edit,
    Editor,
    FlipBit,
    Off,
    OffRole,
    SetScale,
    SetZeroPoint,
    apply,
)
from quantscope.errors import BadConfigError, BadDataError, BadModelError, StoppedError
from quantscope.run import Comparison, WhatIf, compare, compare_evaluations, evaluate
from quantscope.run.whatif.downstream import DownstreamSqnr

Array = np.ndarray[Any, Any]
PICTURES = np.random.default_rng(2).normal(0, 1, (9, 3, 5, 7)).astype(np.float32)
SAMPLE = load_sample().take(40)


@pytest.fixture(scope="module")
def net() -> Residual:
    return residual()


@pytest.fixture(scope="module")
def paths(net: Residual, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return save(QuantizedNet(net), folder / "q.pt2"), save(FloatNet(net), folder / "f.pt2")


@pytest.fixture(scope="module")
def small(paths: tuple[Path, Path]) -> WhatIf:
    return WhatIf(paths[0], images_of(PICTURES), float_model=paths[1], quick=9)


@pytest.fixture(scope="module")
def resnet8(resnet8_program: Path) -> WhatIf:
    return WhatIf(resnet8_program, SAMPLE, quick=12)


def every_edit(what_if: WhatIf, *, of_each_role: bool = False) -> Iterator[Edit]:
    """Edits of every kind for every tensor, or for the first one of each role alone."""
    tensors = what_if.editor.network.tensors
    if of_each_role:
        tensors = tuple({tensor.role: tensor for tensor in reversed(tensors)}.values())
    for tensor in tensors:
        if tensor.role != "bias":
            yield SetScale(tensor.name, factor=1.3)
        yield Off(tensor.name)
        if tensor.role == "activation":
            yield SetZeroPoint(tensor.name, int(tensor.params.zero_point) + 1)
        else:
            yield FlipBit(tensor.name, (0,) * len(tensor.shape or ()), 4)


def check_equals_the_saved_program(what_if: WhatIf, edits: list[Edit], folder: Path) -> None:
    effect, path = what_if.answer(edits), folder / "edited.pt2"
    digest = effect.applied.save(path)
    saved = evaluate(path, what_if.quick_images)
    assert saved.digest == digest == effect.evaluation.digest
    np.testing.assert_array_equal(effect.evaluation.scores, saved.scores)


@pytest.mark.parametrize("of_each_role", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_scores_are_those_of_the_saved_program_for_every_tensor(
    of_each_role: bool, small: WhatIf, tmp_path: Path
) -> None:
    for edit in every_edit(small, of_each_role=of_each_role):
        check_equals_the_saved_program(small, [edit], tmp_path)


def test_scores_of_a_resnet8_are_those_of_the_saved_program(
    resnet8: WhatIf, tmp_path: Path
) -> None:
    for edits in (
        [SetScale("stem.relu.out", factor=1.4), Off("stack2.conv1")],
        [SetZeroPoint("stack3.relu2.out", 5), FlipBit("head.weight", (3, 7), 6)],
    ):
        check_equals_the_saved_program(resnet8, edits, tmp_path)


@pytest.mark.slow
def test_scores_of_a_resnet8_are_those_of_the_saved_program_for_every_tensor(
    resnet8: WhatIf, tmp_path: Path
) -> None:
    for edit in every_edit(resnet8):
        check_equals_the_saved_program(resnet8, [edit], tmp_path)


def test_accuracy_and_flips_are_those_of_evaluations(
    resnet8: WhatIf, resnet8_program: Path, tmp_path: Path
) -> None:
    effect = resnet8.answer([SetScale("stack3.relu2.out", factor=6.0)])
    effect.applied.save(tmp_path / "edited.pt2")
    data = resnet8.quick_images
    edited = evaluate(tmp_path / "edited.pt2", data)
    base, floats = (evaluate(name, data) for name in (resnet8_program, "resnet8-torch"))
    found = effect.evaluation
    assert (found.accuracy, found.loss) == (edited.accuracy, edited.loss)
    assert found.provenance == edited.provenance
    assert found.model == "resnet8.pt2, edited"
    assert effect.against_float is not None
    assert effect.against_float.second.model == floats.model == "resnet8.safetensors"
    for mine, other in ((effect.against_base, base), (effect.against_float, floats)):
        np.testing.assert_array_equal(mine.second.scores, other.scores)
        delta = compare_evaluations(edited, other)
        assert (mine.delta, mine.p_value) == (delta.delta, delta.p_value)
        assert mine.gained.tolist() == delta.gained.tolist()
        assert mine.lost.tolist() == delta.lost.tolist()
    assert effect.kernels_changed == ()
    json.dumps(effect.to_dict(), allow_nan=False)


def test_predictions_of_chosen_images(resnet8: WhatIf) -> None:
    effect = resnet8.answer([SetScale("stack3.relu2.out", factor=6.0)])
    rows = [4, 1]
    indices = [int(resnet8.quick_images.indices[row]) for row in rows]
    for row, found in zip(rows, effect.predictions(indices), strict=True):
        assert found.index == resnet8.quick_images.indices[row]
        assert found.edited_class == np.argmax(found.scores)
        assert found.base_class == effect.against_base.second.predictions[row]
    absent = next(i for i in range(10_000) if i not in resnet8.quick_images.indices)
    with pytest.raises(BadDataError, match=f"Image {absent} is not among the 12 images"):
        effect.predictions([absent])


def test_full_answers_take_all_images_and_can_be_stopped(paths: tuple[Path, Path]) -> None:
    what_if = WhatIf(paths[0], images_of(PICTURES), float_model=paths[1], quick=3)
    assert what_if.answer([]).evaluation.images == 3
    seen: list[tuple[str, int, int]] = []
    edits = [SetScale("x", factor=3)]
    effect = what_if.answer(edits, full=True, progress=lambda *step: seen.append(step))
    assert effect.evaluation.images == effect.against_base.second.images == 9
    assert effect.find_against_float(lambda *step: seen.append(step)) is not None
    assert {what for what, _, _ in seen} == {
        "Evaluating the unedited model",
        "Evaluating the edited model",
        "Evaluating the float model",
    }

    def stop(what: str, done: int, total: int) -> None:
        raise StoppedError("enough")

    with pytest.raises(StoppedError):
        what_if.answer([Off("x")], full=True, progress=stop)
    with pytest.raises(StoppedError):
        what_if.downstream_sqnr([Off("x")], full=True, progress=stop)
    assert what_if.answer([Off("x")], full=True).evaluation.images == 9


def test_an_edit_that_changes_nothing_says_so(small: WhatIf) -> None:
    assert small.answer([]).unchanged
    assert small.answer([SetScale("x", factor=1.0)]).unchanged
    assert not small.answer([SetScale("x", factor=4.0)]).unchanged


def check_rows(found: Comparison, wanted: Comparison) -> None:
    rows = {tensor.name: tensor for tensor in found.tensors}
    for tensor in wanted.activations:
        row = rows[tensor.name]
        assert (row.exact, row.bits) == (tensor.exact, tensor.bits)
        assert row.sqnr_db == (
            None if tensor.sqnr_db is None else pytest.approx(tensor.sqnr_db, abs=1e-4)
        )


@pytest.mark.parametrize("of_each_role", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_sqnrs_are_those_of_comparisons_for_every_tensor(
    of_each_role: bool, small: WhatIf, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    images = images_of(PICTURES)
    before = compare(paths[0], images, float_model=paths[1], detail="sqnr")
    for edit in every_edit(small, of_each_role=of_each_role):
        path = tmp_path / "edited.pt2"
        small.editor.apply([edit]).save(path)
        wanted = compare(path, images, float_model=paths[1], detail="sqnr")
        found = small.downstream_sqnr([edit])
        check_rows(found, wanted)
        check_rows(found.before, before)
        assert found.output.kl_nats == pytest.approx(wanted.output.kl_nats)
        assert (found.model, found.digest) == ("q.pt2, edited", wanted.digest)


def test_sqnrs_of_a_resnet8_are_those_of_a_comparison(
    resnet8: WhatIf, resnet8_program: Path, tmp_path: Path
) -> None:
    data = resnet8.quick_images
    edits = [SetScale("stack2.relu1.out", factor=3.0), SetScale("stack3.conv2.weight", factor=2.0)]
    resnet8.editor.apply(edits).save(tmp_path / "edited.pt2")
    found = resnet8.downstream_sqnr(edits)
    check_rows(found, compare(tmp_path / "edited.pt2", data, detail="sqnr"))
    check_rows(found.before, compare(resnet8_program, data, detail="sqnr"))
    assert found.downstream[0] == "stack2.relu1.out" and "head.out" in found.downstream
    assert "stack2.shortcut.out" not in found.downstream


def test_weights_that_are_like_nothing_are_compared_all_the_same(small: WhatIf) -> None:
    """Files with such weights would be said not to belong together."""
    edits = [SetScale(f"{layer}.weight", factor=1000.0) for layer in ("conv2d", "linear")]
    edits.append(SetScale("conv2d_2.weight", factor=1000.0))
    found = small.downstream_sqnr(edits)
    assert found["linear.out"].sqnr_db is not None
    assert found["linear.out"].sqnr_db < (found.before["linear.out"].sqnr_db or 0)


def test_only_what_is_downstream_is_said_to_change(small: WhatIf) -> None:
    found = small.downstream_sqnr([SetScale("conv2d_2.weight", factor=2.0)])
    assert found.downstream == tuple(NAMES[key] for key in ("branch", "add", "pool", "head"))
    assert [name for name, _, _ in found.changes] == list(found.downstream)
    for key in ("x", "conv"):
        assert found[NAMES[key]].sqnr_db == found.before[NAMES[key]].sqnr_db
    assert small.downstream_sqnr([]).downstream == ()


def inner(net: Residual, off: str) -> dict[str, Array]:
    """What the readers of each quantizer get, with one quantizer off."""
    found: dict[str, Array] = {}

    class Looking(QuantizedNet):
        def quantized(self, value: torch.Tensor, key: str) -> torch.Tensor:
            found[key] = super().quantized(value, key).numpy().astype(np.float64)
            return torch.from_numpy(found[key].astype(np.float32))

    with torch.no_grad():
        Looking(net, off=(off,))(torch.from_numpy(PICTURES))
    return found


@pytest.mark.parametrize("key", QUANTIZERS)
def test_a_tensor_switched_off_has_the_sqnr_of_what_its_readers_get(
    key: str, net: Residual, small: WhatIf
) -> None:
    found: DownstreamSqnr = small.downstream_sqnr([Off(NAMES[key])])
    row = found[NAMES[key]]
    assert row.bits == 32 and found.unseen == ()
    now = inner(net, key)[key]
    floats = float_values(net)[key]
    error = ((now - floats) ** 2).sum()
    if error == 0:
        assert row.exact and key == "x"
        return
    assert row.sqnr_db == pytest.approx(10 * np.log10((floats**2).sum() / error), abs=1e-3)


def float_values(net: Residual) -> dict[str, Array]:
    found: dict[str, Array] = {}
    with torch.no_grad():
        x = torch.from_numpy(PICTURES)
        conv = torch.relu(convolved(x, net.conv, padding=1))
        branch = convolved(conv, net.branch)
        total = torch.relu(conv + branch)
        pool = total.mean(dim=(2, 3), keepdim=True)
        head = torch.nn.functional.linear(
            pool.flatten(1), torch.from_numpy(net.head.weight), torch.from_numpy(net.head.bias)
        )
    values = {"x": x, "conv": conv, "branch": branch, "add": total, "pool": pool, "head": head}
    found |= {key: value.numpy().astype(np.float64) for key, value in values.items()}
    return found


def convolved(x: torch.Tensor, layer: Any, **how: Any) -> torch.Tensor:
    weight, bias = torch.from_numpy(layer.weight), torch.from_numpy(layer.bias)
    return torch.nn.functional.conv2d(x, weight, bias, **how)


def test_a_relu_that_is_put_back_counts(
    net: Residual, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    """What the readers get is behind it."""
    path = save(QuantizedNet(net, folded=True), tmp_path / "folded.pt2")
    what_if = WhatIf(path, images_of(PICTURES), float_model=paths[1])
    plain = WhatIf(paths[0], images_of(PICTURES), float_model=paths[1])
    found = what_if.downstream_sqnr([Off("conv2d.out")])["conv2d.out"]
    wanted = plain.downstream_sqnr([Off("relu.out")])["relu.out"]
    assert found.sqnr_db == pytest.approx(wanted.sqnr_db)


def test_with_everything_off_nothing_is_lost(small: WhatIf) -> None:
    found = small.downstream_sqnr([OffRole("weights"), OffRole("activations")])
    assert all(row.bits == 32 and row.exact for row in found.tensors)
    assert found.unseen == () and len(found.tensors) == len(QUANTIZERS)


def test_without_a_float_model_there_is_less_to_say(paths: tuple[Path, Path]) -> None:
    what_if = WhatIf(paths[0], images_of(PICTURES))
    effect = what_if.answer([SetScale("x", factor=2.0)])
    assert effect.against_float is None
    with pytest.raises(BadConfigError, match=r"q\.pt2 does not say which float model"):
        what_if.downstream_sqnr([SetScale("x", factor=2.0)])


def test_one_door_leads_to_both_kinds(paths: tuple[Path, Path]) -> None:
    applied = apply(paths[0], [Off("x")], float_model=paths[1])
    assert applied.to_bytes().startswith(b"PK")
    assert Editor(paths[0]).suffix == ".pt2"
    assert Editor("resnet8-int8").suffix == ".onnx"
    with pytest.raises(BadModelError, match=r"resnet8\.safetensors is not quantized"):
        Editor("resnet8-torch")


def test_edits_of_another_model_have_no_effect_here(small: WhatIf) -> None:
    with pytest.raises(BadConfigError, match="These edits were applied to another model"):
        small.effect_of(apply("resnet8-int8", [Off("stem")]))


def test_what_a_program_has_not_is_refused_in_one_line(paths: tuple[Path, Path]) -> None:
    images: ImageSet = images_of(PICTURES)
    with pytest.raises(BadConfigError, match=r"q\.pt2 .* has no runtime execution here"):
        WhatIf(paths[0], images, execution="runtime")
    with pytest.raises(BadConfigError, match="int8 kernels are a setting of onnxruntime"):
        WhatIf(paths[0], images, int8_kernels=True)


def test_many_edits_keep_little(paths: tuple[Path, Path]) -> None:
    what_if = WhatIf(paths[0], images_of(PICTURES), float_model=paths[1])
    for step in range(40):
        what_if.answer([SetScale("x", 0.01 + step / 1000)])
    runner = what_if.runner()
    assert what_if.kept_bytes == 0
    assert len(runner._answers) == 32  # type: ignore[attr-defined]
