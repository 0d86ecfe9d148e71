"""Float programs of any network run as the module does, whatever goes in and comes out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support.any_programs import NETWORKS, make, rows_for, save, save_module  # noqa: E402

from quantscope.data import Samples  # noqa: E402
from quantscope.errors import BadDataError, BadModelError  # noqa: E402
from quantscope.run import capture, open_runnable  # noqa: E402


def flat(found: Any) -> list[Any]:
    if isinstance(found, dict):
        found = list(found.values())
    return [x for part in found for x in flat(part)] if isinstance(found, tuple | list) else [found]


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_all_outputs_are_the_modules_own(name: str, dynamic: bool, tmp_path: Path) -> None:
    run = open_runnable(save(name, tmp_path / "m.pt2", dynamic=dynamic))
    ports = tuple(port.name for port in run.model.inputs)
    samples = rows_for(name, 5 if dynamic else 4, ports)
    with torch.inference_mode():
        inputs = [torch.from_numpy(samples.arrays[port]) for port in ports]
        expected = flat(make(name)[0](*inputs))
    found = [run.outputs(batch.feeds) for batch in run.intake.batches(samples)]
    names = [port.name for port in run.model.outputs]
    assert [list(part) for part in found] == [names] * len(found)
    for port, wanted in zip(names, expected, strict=True):
        np.testing.assert_allclose(
            np.concatenate([part[port] for part in found]), wanted, rtol=1e-4, atol=1e-5
        )


def test_inputs_given_by_name_and_nested_are_fed_in_order(tmp_path: Path) -> None:
    class Nested(torch.nn.Module):
        def forward(self, pair: Any, *, more: Any) -> Any:
            return {"sum": pair[0] + 2 * pair[1] + 3 * more["b"]}

    one, two, three = (torch.full((2, 3), float(n)) for n in (1, 10, 100))
    program = torch.export.export(Nested(), ((one, two),), {"more": {"b": three}})
    torch.export.save(program, tmp_path / "n.pt2")
    run = open_runnable(tmp_path / "n.pt2")
    assert [port.name for port in run.model.inputs] == ["pair_0", "pair_1", "more_b"]
    feeds = dict(zip(run.inputs, (one.numpy(), two.numpy(), three.numpy()), strict=True))
    (found,) = run.outputs(feeds).values()
    np.testing.assert_array_equal(found, np.full((2, 3), 321))


def test_values_inside_a_program_of_three_inputs_are_captured(tmp_path: Path) -> None:
    path = save("attention", tmp_path / "a.pt2")
    samples = rows_for("attention", 3, ("ids", "mask", "kinds"))
    found = capture(path, samples, ["ids", "layer_norm"])
    np.testing.assert_array_equal(found["ids"].values, samples.arrays["ids"])
    module, _ = make("attention")
    with torch.inference_mode():
        ids, kinds = (torch.from_numpy(samples.arrays[name]) for name in ("ids", "kinds"))
        expected = module.norm(
            module.words(ids) + module.places(module.order) + module.kinds(kinds)
        )
    np.testing.assert_allclose(found["norm.out"].values, expected, rtol=1e-4, atol=1e-5)


def test_an_input_that_is_no_tensor_is_said(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any, factor: int) -> Any:
            return x * factor

    program = torch.export.export(Scaled(), (torch.ones(2, 3), 4))
    torch.export.save(program, tmp_path / "s.pt2")
    with pytest.raises(BadModelError) as error:
        open_runnable(tmp_path / "s.pt2")
    assert str(error.value) == (
        "s.pt2 is not loaded: it has an input of the kind 'constant_input', which is not a "
        "tensor; export it with tensors as its only inputs"
    )


def test_a_single_number_as_input_is_fed_where_a_batch_has_one(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any, factor: Any) -> Any:
            return x * factor

    example = (torch.ones(2, 3), torch.tensor(4.0))
    run = open_runnable(save_module(Scaled(), example, tmp_path / "s.pt2", dynamic=False))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    factors = np.float32([5, 5, 7, 7])
    samples = Samples.from_arrays("mine", {"x": x, "factor": factors})
    found = [next(iter(run.run(b.feeds).values())) for b in run.intake.batches(samples)]
    np.testing.assert_array_equal(np.concatenate(found), x * factors[:, None])
    differing = Samples.from_arrays("mine", {"x": x, "factor": np.float32([5, 5, 6, 7])})
    with pytest.raises(BadDataError) as error:
        list(run.intake.batches(differing))
    assert str(error.value) == (
        "s.pt2 takes one 'factor' for 2 rows, and those of mine differ within a batch"
    )
