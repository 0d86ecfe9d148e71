"""A suffix answers exactly what a run of the whole edited model does."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from suffix_edits import bypassed, copied, first_of, nudged, quantized_at, whole_run
from tiny_qdq import TinyQdq, images_of

from quantscope.data import load_sample
from quantscope.errors import BadDataError, StoppedError
from quantscope.model import Execution, bundled_models
from quantscope.run.onnx.suffix.runner import SuffixRunner

EXECUTIONS: list[tuple[str, Execution, bool | None]] = [
    ("resnet8-int8", "reference", None),
    ("resnet8-uint8", "reference", None),
    ("resnet8-int8", "runtime", None),
    ("resnet8-int8", "runtime", True),
    ("resnet8-uint8", "runtime", None),
]
BATCH = 12
IMAGES = load_sample().take(30)


def model_of(name: str) -> onnx.ModelProto:
    return onnx.load(bundled_models()[name])


def check_every(
    name: str, execution: Execution, int8_kernels: bool | None, folder: Path, step: int
) -> None:
    base = model_of(name)
    how = {"execution": execution, "int8_kernels": int8_kernels, "batch": BATCH}
    runner = SuffixRunner(base, IMAGES, **how)
    stored = [tensor.name for tensor in base.graph.initializer][::step]
    edits = [nudged(base, name) for name in stored]
    edits += [
        bypassed(base, f"{name}.out") for name in ("stem.relu", "stack2.relu1", "stack3.relu2")
    ]
    for edited in edits:
        whole = whole_run(edited, IMAGES, folder, **how)
        np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)


@pytest.mark.parametrize(("name", "execution", "int8_kernels"), EXECUTIONS)
def test_suffix_equals_the_whole_run(
    name: str, execution: Execution, int8_kernels: bool | None, tmp_path: Path
) -> None:
    check_every(name, execution, int8_kernels, tmp_path, step=9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "execution", "int8_kernels"), EXECUTIONS)
def test_suffix_equals_the_whole_run_for_every_stored_tensor(
    name: str, execution: Execution, int8_kernels: bool | None, tmp_path: Path
) -> None:
    check_every(name, execution, int8_kernels, tmp_path, step=1)


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_late_edits_run_few_operators(execution: Execution) -> None:
    base = model_of("resnet8-uint8")
    runner = SuffixRunner(base, IMAGES, execution=execution)
    executed = {}
    for name in ("stem.weight_quantized", "stack3.conv1.weight_quantized", "head.weight_quantized"):
        runner.outputs(nudged(base, name))
        assert runner.last_run is not None
        executed[name] = runner.last_run.executed / runner.last_run.nodes
    stem, stack3, head = executed.values()
    assert stem > 0.8 and 0.2 < stack3 < 0.5 and head < 0.2


def test_what_the_output_does_not_depend_on_runs_nothing() -> None:
    base = model_of("resnet8-uint8")
    edited = copied(base)
    edited.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "unused"))
    edited.graph.node.append(helper.make_node("Neg", ["unused"], ["nobody_reads"], name="neg"))
    runner = SuffixRunner(base, IMAGES)
    assert runner.outputs(edited) is runner.base_outputs()
    assert runner.last_run is not None and runner.last_run.executed == 0


def test_renaming_everything_runs_nothing() -> None:
    base = model_of("resnet8-uint8")
    edited = copied(base)
    for node in edited.graph.node:
        node.name = f"renamed/{node.name}"
        node.input[:] = [name if name == "input" else f"v/{name}" for name in node.input]
        node.output[:] = [f"v/{name}" for name in node.output]
    for value in (*edited.graph.initializer, *edited.graph.output):
        value.name = f"v/{value.name}"
    runner = SuffixRunner(base, IMAGES)
    assert runner.outputs(edited) is runner.base_outputs()


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_kept_activations_are_small(execution: Execution) -> None:
    for name in ("resnet8-int8", "resnet8-uint8"):
        runner = SuffixRunner(model_of(name), IMAGES, execution=execution)
        runner.base_outputs()
        sizes = runner.kept_bytes_an_image
        assert max(sizes.values()) <= 20_000
        assert runner.kept_bytes == sum(sizes.values()) * len(IMAGES)


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_switching_quantizers_on_in_a_float_model(execution: Execution, tmp_path: Path) -> None:
    base = model_of("resnet8")
    runner = SuffixRunner(base, IMAGES, execution=execution, batch=BATCH)
    for place in ("stem.relu.out", "stack2.shortcut.out", "stack3.relu2.out", "pool.out"):
        edited = quantized_at(base, place, 0.06)
        whole = whole_run(edited, IMAGES, tmp_path, execution=execution, batch=BATCH)
        np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)
    assert max(runner.kept_bytes_an_image.values()) <= 65_536


def test_edits_on_top_of_one_another_start_after_the_first(tmp_path: Path) -> None:
    base = model_of("resnet8-uint8")
    runner = SuffixRunner(base, IMAGES, batch=BATCH)
    early = nudged(base, "stem.weight_quantized")
    runner.outputs(early)
    starts = []
    for name in ("head.weight_quantized", "head.bias_quantized", "head.weight_scale"):
        edited = nudged(early, name)
        whole = whole_run(edited, IMAGES, tmp_path, execution="reference", batch=BATCH)
        np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)
        assert runner.last_run is not None
        starts.append(runner.last_run.executed)
    # The first has to compute the early edit's activations once more, to keep them.
    assert starts[0] > 50 and max(starts[1:]) < 10


@pytest.mark.parametrize("kept_bytes", [0, 4096 * 30, 20_000 * 30])
def test_memory_for_kept_activations_is_a_limit(kept_bytes: int, tmp_path: Path) -> None:
    base = model_of("resnet8-int8")
    runner = SuffixRunner(base, IMAGES, batch=BATCH, kept_bytes=kept_bytes)
    for name in ("stack1.conv1.bias_quantized", "stack3.conv2.weight_scale", "head.weight_scale"):
        edited = nudged(base, name)
        whole = whole_run(edited, IMAGES, tmp_path, execution="reference", batch=BATCH)
        np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)
        assert runner.kept_bytes <= kept_bytes


def test_stopping_leaves_the_runner_fit_for_use(tmp_path: Path) -> None:
    base = model_of("resnet8-uint8")
    runner = SuffixRunner(base, IMAGES, batch=BATCH)

    def stop(what: str, done: int, total: int) -> None:
        if done > BATCH:
            raise StoppedError(f"stopped {what} at {done} of {total}")

    with pytest.raises(StoppedError, match="at 24 of 30"):
        runner.base_outputs(stop)
    edited = nudged(base, "stack2.conv1.weight_quantized")
    runner.base_outputs()
    with pytest.raises(StoppedError):
        runner.outputs(edited, stop)
    whole = whole_run(edited, IMAGES, tmp_path, execution="reference", batch=BATCH)
    np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)


def test_no_images_are_refused() -> None:
    with pytest.raises(BadDataError, match="holds no images"):
        SuffixRunner(model_of("resnet8"), IMAGES.select([]))


def densely_connected(*, batch: int | str = "N") -> TinyQdq:
    """Every layer reads all before it, the image too: there is no value that all goes through."""
    net = TinyQdq((4,), batch=batch)
    rng = np.random.default_rng(2)
    read = [net.quantize("x", 0.05, 128)]
    for number in range(3):
        width = 4 + 3 * number
        net.node("Concat", list(read), f"cat{number}", axis=1)
        net.stored(f"w{number}", rng.integers(-90, 90, (width, 3)).astype(np.int8), 0.01)
        net.node("MatMul", [f"cat{number}", f"w{number}"], f"y{number}")
        read.append(net.quantize(f"y{number}", 0.06, 120))
    net.node("Concat", read, "scores", axis=1)
    return net


@pytest.mark.parametrize("execution", ["reference", "runtime"])
@pytest.mark.parametrize("batch", ["N", 4])
def test_a_graph_without_a_cut_is_run_from_the_image(
    execution: Execution, batch: int | str, tmp_path: Path
) -> None:
    base = onnx.load(densely_connected(batch=batch).save(tmp_path, "scores"))
    rng = np.random.default_rng(3)
    images = images_of(rng.normal(0, 3, (11, 4)).astype(np.float32))
    runner = SuffixRunner(base, images, execution=execution, batch=4)
    for tensor in base.graph.initializer:
        edited = nudged(base, tensor.name)
        whole = whole_run(edited, images, tmp_path, execution=execution, batch=4)
        np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)


def test_what_a_subgraph_takes_from_outside_counts(tmp_path: Path) -> None:
    """`If` reads a value and a constant that are not among its inputs."""
    taken = helper.make_graph(
        [helper.make_node("Mul", ["h", "factor"], ["scaled"])],
        "then",
        [],
        [helper.make_tensor_value_info("scaled", TensorProto.FLOAT, None)],
    )
    plain = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["same"])],
        "else",
        [],
        [helper.make_tensor_value_info("same", TensorProto.FLOAT, None)],
    )
    net = TinyQdq((3,))
    net.constant("step", np.float32(1.5))
    net.constant("factor", np.float32(2))
    net.constant("yes", np.array(True))
    net.node("Mul", ["x", "step"], "h")
    net.nodes.append(
        helper.make_node("If", ["yes"], ["y"], then_branch=taken, else_branch=plain, name="if")
    )
    net.node("Neg", ["y"], "scores")
    base = onnx.load(net.save(tmp_path, "scores"))
    images = images_of(np.arange(12, dtype=np.float32).reshape(4, 3))
    runner = SuffixRunner(base, images)
    for name in ("step", "factor"):
        edited = nudged(base, name)
        whole = whole_run(edited, images, tmp_path, execution="reference")
        assert not np.array_equal(whole, first_of(runner.base_outputs()))
        np.testing.assert_array_equal(first_of(runner.outputs(edited)), whole)
