"""A suffix answers what a whole run does, whatever a network is fed and gives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tiny_qdq import TinyQdq, images_of

import small_networks
from quantscope.data import Samples
from quantscope.edit import Edit, Editor, Off, SetRange, SetScale, SetZeroPoint
from quantscope.errors import BadModelError
from quantscope.model import Execution
from quantscope.run import open_runnable
from quantscope.run.onnx.suffix.runner import SuffixRunner

Outputs = dict[str, NDArray[Any]]
ROWS = 3
EXECUTIONS: tuple[Execution, ...] = ("reference", "runtime")


def samples_of(name: str, rows: int = ROWS) -> Samples:
    """Rows for one of the small networks, in the first dimension of each array."""
    arrays = small_networks.feeds(name, rows)
    if "state" in arrays:
        arrays["state"] = np.moveaxis(arrays["state"], 1, 0)
    return Samples.from_arrays(f"{rows} rows", arrays)


def whole_run(
    model: onnx.ModelProto, samples: Samples, folder: Path, *, execution: Execution
) -> Outputs:
    """All outputs of the exported file, batch by batch, one below the other."""
    path = folder / "edited.onnx"
    path.write_bytes(model.SerializeToString())
    runnable = open_runnable(path, execution=execution)
    parts = [runnable.run(batch.feeds) for batch in runnable.intake.batches(samples)]
    found = {}
    for name in parts[0]:
        values = [part[name] for part in parts]
        if runnable.intake.fixed_batch == 1 and values[0].shape[:1] != (1,):
            values = [value[None] for value in values]
        found[name] = np.concatenate(values)[: len(samples)]
    return found


def every_edit(editor: Editor) -> Iterator[Edit]:
    """Switches, scales, zero-points and ranges of every tensor; a bias is only switched."""
    for tensor in editor.network.tensors:
        yield Off(tensor.name)
        if tensor.role == "bias":
            continue
        yield SetScale(tensor.name, factor=1.3)
        yield SetRange(tensor.name, -0.7, 0.9)
        if tensor.role == "activation":
            yield SetZeroPoint(tensor.name, int(np.ravel(tensor.params.zero_point)[0]) + 1)


def check_every(name: str, form: str, execution: Execution, folder: Path, step: int) -> int:
    """Compare with whole runs for every so many edits; give how many could be made."""
    editor = Editor(
        small_networks.quantized(name, form, folder), small_networks.float_path(name, folder)
    )
    samples = samples_of(name)
    runner = SuffixRunner(editor.base, samples, execution=execution)
    same(runner.base_outputs(), whole_run(editor.base, samples, folder, execution=execution))
    made, refused = 0, list[str]()
    for edit in list(every_edit(editor))[::step]:
        try:
            edited = editor.apply([edit]).proto
        except BadModelError as error:
            refused.append(str(error))
            continue
        same(runner.outputs(edited), whole_run(edited, samples, folder, execution=execution))
        made += 1
    assert all("cannot be edited: " in why and "\n" not in why for why in refused), refused
    return made


def same(found: Any, whole: Outputs) -> None:
    assert list(found) == list(whole)
    for name, values in whole.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("detector", "qdq-int8-per-channel"),
        ("encoder", "qdq-a16"),
        ("recurrent", "qoperator"),
        ("bytes", "qdq-uint8"),
    ],
)
def test_outputs_are_those_of_a_whole_run(name: str, form: str, tmp_path: Path) -> None:
    step = 1 if name in ("recurrent", "bytes") else 23
    assert check_every(name, form, "reference", tmp_path, step) >= 8


def test_runtime_outputs_are_those_of_a_whole_run(tmp_path: Path) -> None:
    assert check_every("recurrent", "qdq-uint8", "runtime", tmp_path, 3) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("form", small_networks.FORMS[:4])
@pytest.mark.parametrize("name", small_networks.NAMES)
def test_outputs_are_those_of_a_whole_run_for_every_tensor(
    name: str, form: str, execution: Execution, tmp_path: Path
) -> None:
    assert check_every(name, form, execution, tmp_path, 1) > 10


def weight_of(editor: Editor, layer: str) -> str:
    """The first weight of a layer, which is found by its name in the file."""
    weights = (t for t in editor.network.tensors if t.role == "weight")
    return next(t.name for t in weights if layer in t.integer_names[0])


def test_an_edit_runs_only_the_outputs_that_it_reaches(tmp_path: Path) -> None:
    path = small_networks.quantized("detector", "qdq-uint8", tmp_path)
    editor = Editor(path, small_networks.float_path("detector", tmp_path))
    runner = SuffixRunner(editor.base, samples_of("detector"))
    base = runner.base_outputs()
    edit = SetScale(weight_of(editor, "head.2.cls"), factor=1.3)
    found = runner.outputs(editor.apply([edit]).proto)
    assert [name for name in base if found[name] is not base[name]] == ["scale_2"]
    assert runner.last_run is not None and runner.last_run.executed < 20


def looping() -> TinyQdq:
    """A Loop adds a value from outside, times a constant from outside, to a state; two outputs."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["h", "factor"], ["part"]),
            helper.make_node("Add", ["state", "part"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    net = TinyQdq((3,))
    for name, value in {"step": 1.5, "factor": 2, "last": 0.5}.items():
        net.constant(name, np.float32(value))
    net.constant("turns", np.array(3))
    net.constant("yes", np.array(True))
    net.node("Mul", ["x", "step"], "h")
    net.nodes.append(helper.make_node("Loop", ["turns", "yes", "x"], ["y"], body=body, name="loop"))
    net.node("Mul", ["y", "last"], "scores")
    return net


def test_what_a_loop_takes_from_outside_counts(tmp_path: Path) -> None:
    base = onnx.load(looping().save(tmp_path, "scores"))
    base.graph.output.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, None))
    samples = images_of(np.arange(12, dtype=np.float32).reshape(4, 3))
    runner = SuffixRunner(base, samples)
    executed = {}
    for name in ("step", "factor", "last"):
        edited = onnx.ModelProto()
        edited.CopyFrom(base)
        (stored,) = (t for t in edited.graph.initializer if t.name == name)
        stored.CopyFrom(numpy_helper.from_array(np.float32(0.7), name))
        same(runner.outputs(edited), whole_run(edited, samples, tmp_path, execution="reference"))
        assert runner.last_run is not None
        executed[name] = runner.last_run.executed
    assert executed == {"step": 3, "factor": 2, "last": 1}


def test_answers_are_kept_within_the_limit(tmp_path: Path) -> None:
    path = small_networks.quantized("detector", "qdq-uint8", tmp_path)
    editor = Editor(path, small_networks.float_path("detector", tmp_path))
    samples = samples_of("detector")
    edited = editor.apply([SetScale(weight_of(editor, "model.0"), factor=1.3)]).proto
    one = sum(v.nbytes for v in SuffixRunner(editor.base, samples).base_outputs().values())
    for limit, kept in ((0, False), (one, True)):
        runner = SuffixRunner(editor.base, samples, kept_bytes=limit)
        first = runner.outputs(edited)
        assert (runner.outputs(edited) is first) is kept
        assert runner.kept_bytes <= limit
