"""Pairing of the small networks in every form, checked by running both."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from quantscope.model import find_original, open_model
from quantscope.model.onnx import OnnxModel
from quantscope.model.pairing import Pairing, pair_models
from quantscope.model.pairing.constants import Sample, weight_likenesses
from small_networks import NAMES, feeds, float_path, quantized

FORMS = ("qdq-int8-per-channel", "qdq-uint8", "qoperator", "qdq-a16")
EVERY = [*NAMES, "encoder-written-out"]


def _pair(name: str, form: str, folder: Path) -> tuple[OnnxModel, OnnxModel, Pairing]:
    model = open_model(quantized(name, form, folder))
    original = find_original(model, float_path(name, folder))
    assert isinstance(original, OnnxModel) and isinstance(model, OnnxModel)
    return original, model, pair_models(original, model)


def _values(
    proto: onnx.ModelProto, names: set[str], given: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    looked = onnx.ModelProto()
    looked.CopyFrom(proto)
    made = {name for node in looked.graph.node for name in node.output}
    kept = {output.name for output in looked.graph.output}
    for name in sorted((names & made) - kept):
        looked.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        looked.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = [output.name for output in session.get_outputs()]
    return {**given, **dict(zip(outputs, session.run(None, given), strict=True))}


def _sqnr_db(here: np.ndarray, there: np.ndarray) -> float:
    signal, noise = np.linalg.norm(there), np.linalg.norm(here - there)
    # Both zero, as an open attention mask is, is as near as can be.
    return 100.0 if noise == 0 else float(20 * np.log10(max(signal, 1e-9) / noise))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("form", FORMS)
def test_every_activation_is_paired(name: str, form: str, tmp_path: Path) -> None:
    _, _, pairing = _pair(name, form, tmp_path)
    assert pairing.unpaired == ()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("form", ["qdq-int8-per-channel", "qdq-uint8", "qoperator"])
def test_pairs_are_near_each_other_and_far_from_others(
    name: str, form: str, tmp_path: Path
) -> None:
    original, model, pairing = _pair(name, form, tmp_path)
    given = feeds(name, seed=7)
    pairs = [pair for pair in pairing.pairs if pair.role == "activation"]
    floats = _values(original.proto, {pair.float_name for pair in pairs}, given)
    tensors = {pair.name: model.network.tensor(pair.name) for pair in pairs}
    integers = {name for tensor in tensors.values() for name in tensor.integer_names}
    quants = _values(model.stated, integers, given)
    found = {}
    for pair in pairs:
        params = tensors[pair.name].params
        stored = quants[tensors[pair.name].integer_names[0]].astype(np.int64)
        found[pair.name] = (stored - int(params.zero_point)) * float(params.scale)
    sqnrs = []
    for pair in pairs:
        there = floats[pair.float_name].astype(np.float64)
        sqnrs.append(_sqnr_db(found[pair.name].reshape(there.shape), there))
        assert sqnrs[-1] > 8, f"{pair.name} is not {pair.float_name}: {sqnrs[-1]:.1f} dB"
    # Tensors of one size, each against the next one's float values.
    by_size: dict[int, list[int]] = {}
    for place, pair in enumerate(pairs):
        by_size.setdefault(floats[pair.float_name].size, []).append(place)
    shuffled = [
        _sqnr_db(found[pairs[one].name].ravel(), floats[pairs[other].float_name].ravel())
        for places in by_size.values()
        for one, other in zip(places, [*places[1:], places[0]], strict=True)
        if pairs[one].float_name != pairs[other].float_name
    ]
    assert np.median(sqnrs) > np.median(shuffled) + 15


def test_the_gates_of_hard_swish_are_paired_where_the_float_file_has_none(tmp_path: Path) -> None:
    original, _, pairing = _pair("mobile", "qdq-uint8", tmp_path)
    written = open_model(float_path("mobile", tmp_path))
    assert original.digest == written.digest and original.name == written.name
    assert original.path == written.path
    gates = [pair for pair in pairing.pairs if pair.float_name.endswith("/HardSigmoid")]
    assert len(gates) == 8
    assert pairing.float_digest == written.digest


def test_likenesses_of_many_weights_are_those_of_two() -> None:
    rng = np.random.default_rng(5)
    for columns in (2, 9):  # a handful of numbers a channel, and more
        rows = rng.normal(0, 1, (7, 3, columns))
        rows[2] = 0
        some, others = (
            [Sample((3, columns), row) for row in each] for each in (rows[:4], rows[4:])
        )
        found = weight_likenesses(some, others)
        for a, b in np.ndindex(4, 3):
            one, two = some[a].rows, others[b].rows
            if columns == 2:
                one, two = one.reshape(1, -1), two.reshape(1, -1)
            sizes = (np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)).sum()
            expected = np.abs((one * two).sum(axis=1)).sum() / sizes if sizes else np.nan
            np.testing.assert_allclose(found[a, b], expected, rtol=1e-12)
