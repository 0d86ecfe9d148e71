from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests import small_networks

from quantscope.data import Intake, random_samples
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.files import memory
from quantscope.model import Model, open_model

F, I64 = TensorProto.FLOAT, TensorProto.INT64


def taker(
    folder: Path,
    inputs: dict[str, tuple[int, Sequence[int | str | None]]],
    nodes: Sequence[onnx.NodeProto] | None = None,
    constants: dict[str, Any] | None = None,
) -> Model:
    """A model whose inputs go to outputs of their own, by `nodes` or unchanged."""
    nodes = nodes or [helper.make_node("Identity", [name], [f"{name}.y"]) for name in inputs]
    ends = [name for node in nodes for name in node.output]
    proto = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(name, *rest) for name, rest in inputs.items()],
            [helper.make_tensor_value_info(name, F, None) for name in ends[-1:]],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )
    onnx.save(proto, folder / "m.onnx")
    return open_model(folder / "m.onnx")


def line(model: Model, count: int | None = None, **shapes: tuple[int, ...]) -> str:
    with pytest.raises((BadConfigError, BadDataError, BadModelError)) as caught:
        random_samples(model, count, shapes=shapes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", small_networks.NAMES)
def test_every_small_network_is_fed(name: str, tmp_path: Path) -> None:
    model = open_model(small_networks.float_path(name, tmp_path))
    samples = random_samples(model, 5)
    assert (len(samples), samples.targets, samples.is_random) == (5, None, True)
    wanted = small_networks.feeds(name, 1)
    for batch in Intake.of(model).batches(samples, 1):
        assert {n: (a.shape, a.dtype) for n, a in batch.feeds.items()} == {
            n: (a.shape, a.dtype) for n, a in wanted.items()
        }


def test_ids_lie_in_their_tables_and_masks_are_ones(tmp_path: Path) -> None:
    model = open_model(small_networks.float_path("encoder", tmp_path))
    found = random_samples(model, 40).arrays
    assert found["input_ids"].min() == 0
    assert found["input_ids"].max() == small_networks.VOCABULARY - 1
    assert set(np.unique(found["token_type_ids"])) == {0, 1}
    assert (found["attention_mask"] == 1).all()


def test_rows_are_the_same_everywhere(tmp_path: Path) -> None:
    """The digest was made on one machine and must be found on every other."""
    model = open_model(small_networks.float_path("mobile", tmp_path))
    assert random_samples(model, 2).digest == random_samples(model, 2).digest
    few, many = random_samples(model, 2), random_samples(model, 7)
    np.testing.assert_array_equal(many.images[:2], few.images)
    assert not np.array_equal(random_samples(model, 2, seed=1).images, few.images)
    assert few.digest[:16] == "c903e17ca39d17f4"


def test_pictures_are_smooth_and_fill_their_range(tmp_path: Path) -> None:
    model = taker(tmp_path, {"x": (F, ("N", 3, 64, 48))})
    rows = random_samples(model, 8).images
    steps = np.abs(np.diff(rows, axis=-1)).mean()
    shuffled = np.random.default_rng(0).permutation(rows.ravel())
    assert steps < 0.2 * np.abs(np.diff(shuffled)).mean()
    assert -2 <= rows.min() < -1 and 1 < rows.max() <= 2
    assert not np.array_equal(rows[:, 0], rows[:, 1])


def test_the_range_of_the_first_quantizer_is_filled(tmp_path: Path) -> None:
    model = taker(
        tmp_path,
        {"x": (F, ("N", 3, 16, 16))},
        [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])],
        {"scale": np.float32(0.01), "zero": np.uint8(100)},
    )
    rows = random_samples(model, 8).images
    assert -1 <= rows.min() < -0.6 and 1.1 < rows.max() <= 1.55


def test_whole_numbers_are_what_the_graph_says(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["is_rate"]),
        helper.make_node("Identity", ["pixels"], ["p"]),
        helper.make_node("Identity", ["length"], ["l"]),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    inputs = {
        "x": (F, (1, 300)),
        "sr": (I64, ()),
        "length": (I64, (1,)),
        "pixels": (TensorProto.UINT8, (1, 8, 8, 3)),
    }
    found = random_samples(taker(tmp_path, inputs, nodes, {"rate": np.int64(8000)}), 3).arrays
    assert found["sr"].tolist() == [8000] * 3
    assert found["length"].tolist() == [300] * 3
    assert found["pixels"].dtype == np.uint8
    assert found["pixels"].std() > 20
    assert found["x"].shape == (3, 300)


def test_open_sizes_come_from_the_shape_that_is_given(tmp_path: Path) -> None:
    inputs = {"a": (F, ("N", "rows", 5)), "b": (F, ("N", "rows"))}
    model = taker(tmp_path, inputs)
    found = random_samples(model, 2, shapes={"a": (1, 7, 5)})
    assert found.arrays["a"].shape == (2, 7, 5)
    assert found.arrays["b"].shape == (2, 7)
    assert "chosen" not in found.origin


def test_usual_sizes_are_said(tmp_path: Path) -> None:
    model = taker(tmp_path, {"x": (F, ("N", 3, "height", "width"))})
    found = random_samples(model, 1)
    assert found.images.shape == (1, 3, 224, 224)
    assert found.origin.endswith(
        "smooth pictures; chosen, as nothing fixes it: height of x 224, width of x 224 (--shape)"
    )
    lone = random_samples(model, 1, shapes={"": (1, 3, 32, 64)})
    assert lone.images.shape == (1, 3, 32, 64)


def test_what_nothing_fixes_is_asked_for(tmp_path: Path) -> None:
    model = taker(tmp_path, {"x": (F, ("N", "a", "b"))})
    assert line(model) == (
        "The input 'x' of m.onnx is [N, a, b], and nothing says how large the open sizes are; give "
        "--shape x=1xNxN (with numbers), or rows with --data FILE.npz"
    )


def test_shapes_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    model = taker(tmp_path, {"x": (F, ("N", 3)), "z": (F, ("N", 4))})
    assert line(model, y=(1, 3)) == "m.onnx has no input 'y' for --shape; it has x, z"
    assert line(model, x=(1, 5)) == (
        "--shape 1x5 does not fit the input 'x' of m.onnx, which is [N, 3]"
    )
    assert line(model, **{"": (1, 3)}) == (
        "m.onnx has 2 inputs (x, z); say whose shape it is, with --shape NAME=1x3"
    )


def test_too_many_rows_are_refused_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = taker(tmp_path, {"x": (F, ("N", 3, 32, 32))})
    assert line(model, 0) == "0 random rows were asked for; make 1 to 1,000,000"
    monkeypatch.setattr(memory, "free_memory", lambda: 100_000_000)
    assert line(model, 10_000) == (
        "10,000 random rows for m.onnx would take 0.1 GB, and 0.1 GB of memory are left; take "
        "fewer rows"
    )


def test_inputs_that_arrays_cannot_be_given_for_are_named(tmp_path: Path) -> None:
    model = taker(tmp_path, {"words": (TensorProto.STRING, ("N",))})
    assert line(model).startswith("The input 'words' of m.onnx is a string, which arrays of")


def test_large_rows_are_fewer(tmp_path: Path) -> None:
    model = taker(tmp_path, {"x": (F, ("N", 3, 640, 640))})
    assert len(random_samples(model)) == 13
