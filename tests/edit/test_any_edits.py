"""Whatever edits are made, the result is a valid model that onnxruntime runs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from comparison_nets import residual
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantscope.edit import (
    Edit,
    Editor,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    SetChannel,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
)
from quantscope.edit.recipe import Recipe
from quantscope.model import QuantTensor
from quantscope.model.onnx import check_model
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray[Any, Any]


def edits_of(editor: Editor, draw: Any) -> Edit:  # noqa: PLR0911 -- one for each kind
    """One valid edit of any kind."""
    network = editor.network
    tensor: QuantTensor = draw(st.sampled_from(network.tensors))
    own_scale = tensor.role != "bias"
    kinds = ["off", "on", "role", *(["scale", "zero", "range"] if own_scale else [])]
    kind = draw(st.sampled_from([*kinds, *(["integer", "channel", "bit"] * tensor.has_data)]))
    params, name = tensor.params, tensor.name
    shape = tuple(int(dim) for dim in tensor.shape or () if isinstance(dim, int))
    layer = draw(st.sampled_from([layer.name for layer in network.layers if layer.weight]))
    match kind:
        case "scale" if draw(st.booleans()):
            return SetScale(name, factor=draw(st.floats(0.1, 10.0)))
        case "scale":
            scales = st.floats(1e-4, 1.0)
            size = params.scale.size
            return SetScale(name, tuple(draw(st.lists(scales, min_size=size, max_size=size))))
        case "zero":
            return SetZeroPoint(name, draw(st.integers(params.qmin, params.qmax)))
        case "range":
            return SetRange(name, -draw(st.floats(0, 9)), draw(st.floats(0.01, 9)))
        case "integer":
            index = tuple(draw(st.integers(0, size - 1)) for size in shape)
            return SetInteger(name, index, draw(st.integers(params.qmin, params.qmax)))
        case "channel":
            return SetChannel(name, 0, draw(st.integers(params.qmin, params.qmax)))
        case "bit":
            index = tuple(draw(st.integers(0, size - 1)) for size in shape)
            return FlipBit(name, index, draw(st.integers(0, params.bits - 1)))
        case "role":
            role = draw(st.sampled_from(["weights", "activations"]))
            return draw(st.sampled_from([OffRole(role), OnRole(role)]))
        case "off":
            return Off(draw(st.sampled_from([name, layer])))
        case _:
            return On(draw(st.sampled_from([name, layer])))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Editor:
    folder = tmp_path_factory.mktemp("small")
    net = residual()
    return Editor(net.save_quantized(folder), net.save_float(folder))


X = np.random.default_rng(9).normal(0, 1, (2, 3, 5, 7)).astype(np.float32)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_sequence_of_valid_edits_gives_a_model_that_runs(small: Editor, data: Any) -> None:
    edits = [edits_of(small, data.draw) for _ in range(data.draw(st.integers(1, 6)))]
    applied = small.apply(edits)
    check_model(Path("edited.onnx"), applied.proto)
    for execution in ("reference", "runtime"):
        (found,) = session_of(applied.proto, execution).run(None, {"x": X})  # type: ignore[arg-type]
        assert found.shape == (2, 3)
    recipe = Recipe("0" * 64, tuple(edits))
    assert Recipe.from_json(recipe.to_json()) == recipe
    changed = {change.tensor for change in applied.changes}
    assert (not changed) == (applied.proto.graph == small.base.graph)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_edits_of_resnet8_pass_the_checker(int8: Editor, pixels: Array, data: Any) -> None:
    edits = [edits_of(int8, data.draw) for _ in range(data.draw(st.integers(1, 4)))]
    applied = int8.apply(edits)
    onnx.checker.check_model(applied.proto, full_check=True)
    for execution in ("reference", "runtime"):
        session = session_of(applied.proto, execution, int8_kernels=True)  # type: ignore[arg-type]
        assert session.run(None, {"input": pixels[:2]})[0].shape == (2, 10)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_edits_and_their_opposites_leave_the_model_as_it_was(small: Editor, data: Any) -> None:
    edits = [edits_of(small, data.draw) for _ in range(data.draw(st.integers(1, 5)))]
    kept = [e for e in edits if not isinstance(e, SetInteger | SetChannel | FlipBit)]
    back: list[Edit] = [OnRole("weights"), OnRole("activations")]
    for tensor in small.network.tensors:
        if tensor.role != "bias":
            scales = tuple(float(scale) for scale in tensor.params.scale.ravel())
            zeros = tuple(int(zero) for zero in tensor.params.zero_point.ravel())
            back += [SetScale(tensor.name, scales), SetZeroPoint(tensor.name, zeros)]
    assert small.apply([*kept, *back]).proto.graph == small.base.graph
