"""Fair shares, against all orders of a network with four layers, tried one by one."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from four_layers import LAYERS, rows, write_four_layers

from quantscope.edit import Editor, Off
from quantscope.errors import BadConfigError
from quantscope.run import evaluate
from quantscope.study.interactions import shapley
from quantscope.study.interactions.shapley import draw_orders


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_four_layers(tmp_path_factory.mktemp("four"))


def test_the_shares_are_those_of_all_orders(nets: tuple[Path, Path], tmp_path: Path) -> None:
    floats, path = nets
    found = shapley(path, rows(), 24, float_model=floats, layers=LAYERS)
    assert found.is_exact and found.orders == 24 and found.variants == 16
    edited, editor = tmp_path / "edited.onnx", Editor(path, floats)
    noises: dict[frozenset[str], float] = {}

    def noise(on: frozenset[str]) -> float:
        if on not in noises:
            editor.apply([Off(name) for name in LAYERS if name not in on]).save(edited)
            score = evaluate(
                edited, rows(), execution="reference", float_model=floats, measure="noise"
            ).score
            noises[on] = score.value
            edited.unlink()
        return noises[on]

    added: dict[str, list[float]] = {name: [] for name in LAYERS}
    for order in permutations(LAYERS):
        on: frozenset[str] = frozenset()
        for name in order:
            added[name].append(noise(on | {name}) - noise(on))
            on |= {name}
    for share in found.shares:
        assert share.noise is not None and share.noise_standard_error == 0
        assert share.noise.value == pytest.approx(np.mean(added[share.layer]), rel=1e-9)
    assert found.noise is not None
    assert found.noise.value == pytest.approx(noise(frozenset(LAYERS)) - noise(frozenset()))


@pytest.mark.parametrize("orders", [1, 3, 11])
def test_the_shares_of_a_few_orders_add_up_to_the_loss_too(
    orders: int, nets: tuple[Path, Path]
) -> None:
    floats, path = nets
    found = shapley(path, rows(), orders, float_model=floats, seed=3)
    assert not found.is_exact and found.orders == orders
    for which in ("loss", "noise"):
        whole, shares = getattr(found, which), [getattr(s, which) for s in found.shares]
        assert sum(share.value for share in shares) == pytest.approx(whole.value, abs=1e-12)
        errors = [getattr(s, f"{which}_standard_error") for s in found.shares]
        assert all(e is None for e in errors) if orders == 1 else all(e >= 0 for e in errors)


def test_a_seed_draws_the_same_orders_and_each_once() -> None:
    assert draw_orders(9, 40, 1) == draw_orders(9, 40, 1) != draw_orders(9, 40, 2)
    assert len(set(draw_orders(9, 40, 1))) == 40
    assert len(draw_orders(3, 100, 0)) == 6


def test_a_sample_without_a_number_is_left_out_of_all_shares(nets: tuple[Path, Path]) -> None:
    floats, path = nets
    data = rows(9)
    data.arrays["x"][4] = 0.0  # no signal: its noise has no share
    found = shapley(path, data, 2, float_model=floats)
    assert found.noise is not None
    total = sum(share.noise.value for share in found.shares if share.noise is not None)
    assert total == pytest.approx(found.noise.value, abs=1e-12)


def test_no_orders_are_refused(nets: tuple[Path, Path]) -> None:
    with pytest.raises(BadConfigError, match=r"^--shapley takes 1 to 100,000 orders, not 0; more"):
        shapley(nets[1], rows(), 0, float_model=nets[0])
    with pytest.raises(BadConfigError, match="go on with --yes"):
        shapley(nets[1], rows(), 5, float_model=nets[0], most_seconds=0)
