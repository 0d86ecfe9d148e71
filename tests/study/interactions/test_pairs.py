"""What two layers cost together, against a loop that applies both switches and evaluates."""

from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from four_layers import LAYERS, rows, write_four_layers

from quantscope.edit import Edit, Editor, Off, On
from quantscope.errors import BadConfigError, BadModelError
from quantscope.run import MEASURES, evaluate
from quantscope.study.interactions import Interactions, interactions
from quantscope.study.interactions.pairs import holm
from quantscope.study.sensitivity import RowMode, sensitivity


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_four_layers(tmp_path_factory.mktemp("four"))


@pytest.fixture(scope="module")
def found(nets: tuple[Path, Path]) -> Interactions:
    floats, path = nets
    return interactions(path, rows(), float_model=floats)


def losses(nets: tuple[Path, Path], edits: list[Edit], folder: Path) -> np.ndarray:
    """Give what each sample loses: right or wrong, and noise; the model is written and run.

    A sample that the float model has nothing but zeros for has no noise.
    """
    floats, path = nets
    edited = folder / "edited.onnx"
    Editor(path, floats).apply(edits).save(edited)
    scores = [
        evaluate(edited, rows(), execution="reference", float_model=floats, measure=measure).score
        for measure in ("top1", "noise")
    ]
    edited.unlink()
    return np.array([-scores[0].per_sample, scores[1].per_sample])


@pytest.mark.parametrize("mode", ["enable", "disable"])
def test_a_pair_costs_what_switching_both_does_beyond_switching_each(
    mode: RowMode, nets: tuple[Path, Path], tmp_path: Path
) -> None:
    floats, path = nets
    found = interactions(path, rows(), float_model=floats, mode=mode)
    start: list[Edit] = [Off(name) for name in found.layers] if mode == "enable" else []
    switch = On if mode == "enable" else Off

    def loss(*names: str) -> np.ndarray:
        return losses(nets, [*start, *map(switch, names)], tmp_path)

    none, alone = loss(), {name: loss(name) for name in found.layers}
    for pair in found.pairs:
        beyond = loss(pair.first, pair.second) - alone[pair.first] - alone[pair.second] + none
        assert pair.loss is not None and pair.noise is not None
        assert pair.loss.value == pytest.approx(beyond[0].mean(), abs=1e-12)
        assert pair.noise.value == pytest.approx(np.nanmean(beyond[1]), rel=1e-9, abs=1e-12)
    sign = 1 if mode == "enable" else -1
    for one in found.alone:
        assert one.noise is not None
        expected = sign * np.nanmean((alone[one.layer] - none)[1])
        assert one.noise.value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_every_two_layers_are_a_pair_along_the_network(found: Interactions) -> None:
    assert found.layers == ("x", *LAYERS)
    listed = [(pair.first, pair.second) for pair in found.pairs]
    assert listed == list(combinations(found.layers, 2))


def test_what_all_of_it_costs_is_the_quantized_network_against_all_off(
    found: Interactions, nets: tuple[Path, Path], tmp_path: Path
) -> None:
    cost = losses(nets, [], tmp_path) - losses(nets, list(map(Off, found.layers)), tmp_path)
    assert found.loss is not None and found.noise is not None
    assert found.loss.value == pytest.approx(cost[0].mean(), abs=1e-12)
    assert found.noise.value == pytest.approx(np.nanmean(cost[1]), rel=1e-9)


def test_alone_is_what_sensitivity_says(found: Interactions, nets: tuple[Path, Path]) -> None:
    floats, path = nets
    swept = sensitivity(path, rows(), float_model=floats, mode="enable")
    deltas = {row.layer: row.delta for row in swept.rows}
    for one in found.alone:
        assert one.loss is not None and deltas[one.layer] is not None
        assert one.loss.value == pytest.approx(-(deltas[one.layer] or 0.0), abs=1e-12)


def test_without_labels_or_classes_noise_takes_the_place_of_decibels(
    nets: tuple[Path, Path],
) -> None:
    floats, path = nets
    found = interactions(path, rows(labelled=False), float_model=floats, measure="signal")
    assert found.measure == MEASURES["noise"].name and found.by_score
    assert found.loss == found.noise
    assert any("Decibels do not add up" in note for note in found.notes)


def test_only_the_layers_that_are_asked_for_are_switched(nets: tuple[Path, Path]) -> None:
    floats, path = nets
    found = interactions(path, rows(), float_model=floats, layers=["d", "b"], mode="disable")
    assert found.layers == ("b", "d")
    assert [(pair.first, pair.second) for pair in found.pairs] == [("b", "d")]


def test_a_pair_is_named_only_where_all_pairs_together_leave_no_doubt(found: Interactions) -> None:
    for pair in found.pairs:
        assert pair.noise is not None
        if pair.kind is not None:
            assert pair.adjusted_p is not None and pair.adjusted_p < 0.05
            assert (pair.noise.value > 0) == (pair.kind == "aggravate")
    ranked = [abs(p.noise.value) for p in found.named("compensate") if p.noise is not None]
    assert ranked == sorted(ranked, reverse=True)


def test_holm_is_the_textbooks() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_what_cannot_be_asked_is_refused(nets: tuple[Path, Path]) -> None:
    floats, path = nets
    with pytest.raises(BadConfigError, match=r"^No layer 'e' of four-int8\.onnx can be switched; "):
        interactions(path, rows(), float_model=floats, layers=["a", "e"])
    with pytest.raises(BadConfigError, match=r"^Only a of four-int8\.onnx can be switched"):
        interactions(path, rows(), float_model=floats, layers=["a"])
    with pytest.raises(BadModelError, match=r"^four\.onnx is not quantized, so there is nothing"):
        interactions(floats, rows())
    with pytest.raises(BadConfigError, match="run no integer kernel"):
        interactions(path, rows(), float_model=floats, execution="runtime")
    with pytest.raises(BadConfigError) as refused:
        interactions(path, rows(), float_model=floats, most_seconds=0)
    assert str(refused.value).startswith("17 variants of four-int8.onnx on 37 samples may take ")
    assert "go on with --yes" in str(refused.value)


def test_in_runtime_layers_are_switched_off_in_what_ships(nets: tuple[Path, Path]) -> None:
    floats, path = nets
    found = interactions(
        path, rows(), float_model=floats, mode="disable", execution="runtime", layers=["a", "c"]
    )
    assert found.execution == "runtime" and len(found.pairs) == 1


def test_the_result_is_plain_values_with_their_provenance(found: Interactions) -> None:
    values = found.to_dict()
    assert values["ranked_by"] == "noise of the outputs" and values["mode"] == "enable"
    assert values["provenance"]["onnxruntime"]
    assert values["pairs"][0] == asdict(found.pairs[0])
    assert len(values["digest"]) == 64 and values["images"] == 37
