"""Tensors that use fewer bits than their type has: every view shows what others read of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantscope.data import load_sample
from quantscope.edit import Edit, Editor, SetBits, SetScale
from quantscope.model import open_model
from quantscope.report import trace_text
from quantscope.report.accumulators_text import accumulator_table
from quantscope.run import (
    WhatIf,
    accumulators,
    capture,
    compare,
    evaluate,
    histograms,
    integer_network,
    trace_value,
)
from quantscope.run.onnx.sessions import session_of

Array = np.ndarray[Any, Any]

SAMPLE = load_sample().take(6)
PIXELS = SAMPLE.images.astype(np.float32)
EDITS: list[Edit] = [
    SetBits("weights", 4),
    SetBits("activations", 6),
    # A range that clips much on both sides, so that the ends in use are reached.
    SetScale("stack1.conv2.out", factor=0.25),
    SetScale("stack2.conv1.out", factor=0.25),
]
NAMES = ("stem.out", "stack1.conv2.out", "stack2.conv1.out", "stack2.add.out", "head.out")


@pytest.fixture(scope="module", params=["int8", "uint8"])
def narrow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("narrow") / f"{request.param}.onnx"
    Editor(f"resnet8-{request.param}").apply(EDITS).save(path)
    return path


@pytest.fixture(scope="module")
def stated(narrow: Path) -> dict[str, Array]:
    """The real values behind each tensor's DequantizeLinear, out of onnxruntime itself."""
    model = open_model(narrow).as_onnx("a test")
    proto = type(model.proto)()
    proto.CopyFrom(model.proto)
    names = {name: model.network.tensor(name).dequantized_names[0] for name in NAMES}
    have = {output.name for output in proto.graph.output}
    for value in names.values():
        if value not in have:
            proto.graph.output.add(name=value)
    found = session_of(proto, "reference").run(list(names.values()), {"input": PIXELS})
    return dict(zip(names, found, strict=True))


def test_what_is_captured_lies_within_the_ends_and_is_what_the_next_layer_reads(
    narrow: Path, stated: dict[str, Array]
) -> None:
    for execution in ("reference", "runtime"):
        seen = capture(narrow, SAMPLE, list(NAMES), execution=execution)  # type: ignore[arg-type]
        reached = 0
        for name, found in seen.tensors.items():
            params = open_model(narrow).network.tensor(name).params
            assert params.bits == 6 and found.integers is not None
            low, high = found.integers.min(), found.integers.max()
            assert params.qmin <= low and high <= params.qmax
            reached += (low, high) == (params.qmin, params.qmax)
            if execution == "reference":
                np.testing.assert_array_equal(found.values, stated[name])
        assert reached


def test_the_sqnr_of_a_narrow_tensor_is_numpys(narrow: Path, stated: dict[str, Array]) -> None:
    found = compare(narrow, SAMPLE, float_model="resnet8")
    floats = capture("resnet8", SAMPLE, [name.removesuffix(".out") for name in NAMES])
    for row in found.tensors:
        if row.name not in stated or row.float_name not in floats.tensors:
            continue
        f = floats[row.float_name].values.astype(np.float64)
        noise = ((stated[row.name].astype(np.float64) - f) ** 2).sum()
        assert row.sqnr_db == pytest.approx(10 * np.log10((f**2).sum() / noise), abs=1e-3)


def test_edits_measured_in_place_are_what_the_written_model_gives(narrow: Path) -> None:
    base = f"resnet8-{narrow.stem}"
    for execution in ("reference", "runtime"):
        what_if = WhatIf(base, SAMPLE, execution=execution, quick=len(SAMPLE))  # type: ignore[arg-type]
        downstream = what_if.downstream_sqnr(EDITS)
        whole = compare(narrow, SAMPLE, float_model="resnet8", execution=execution)  # type: ignore[arg-type]
        rows = {row.name: row.sqnr_db for row in whole.tensors}
        after = {row.name: row.sqnr_db for row in downstream.tensors}
        shared = rows.keys() & after.keys()
        assert len(shared) > 8
        for name in shared:
            assert after[name] == pytest.approx(rows[name], abs=1e-4), (execution, name)


def test_the_pieces_of_the_error_add_up_with_the_bits_in_use(narrow: Path) -> None:
    for row in compare(narrow, SAMPLE, float_model="resnet8").tensors:
        if row.role == "activation" and row.sources is not None:
            found = row.sources
            parts = (found.inherited, found.weights, found.rounding, found.clipping)
            assert sum(parts) == pytest.approx(1, abs=1e-6), row.name


def test_integers_alone_give_the_stated_scores(narrow: Path) -> None:
    scores = integer_network(narrow).run(PIXELS)
    whole = evaluate(narrow, SAMPLE, execution="reference").scores
    step = float(open_model(narrow).network.tensor("head.out").params.scale)
    assert np.abs(scores - whole).max() <= 1.5 * step
    assert (scores == whole).mean() > 0.95


def test_a_trace_ends_at_the_integer_that_the_next_layer_reads(
    narrow: Path, stated: dict[str, Array]
) -> None:
    params = open_model(narrow).network.tensor("stack2.conv1.out").params
    values = stated["stack2.conv1.out"][0]
    clipped = np.argwhere(values == values.max())[0]
    for place in (tuple(map(int, clipped)), (3, 4, 5)):
        trace = trace_value(narrow, "stack2.conv1", 0, place, data=SAMPLE)
        assert (trace.qmin, trace.qmax) == (params.qmin, params.qmax)
        assert trace.real == pytest.approx(float(values[place]))
        assert trace.integer == trace.reference_integer


def test_accumulators_are_bounded_by_the_integers_in_use(narrow: Path) -> None:
    rows = {row.layer: row for row in accumulators(narrow, SAMPLE).layers}
    for name, wide in (
        (row.layer, row) for row in accumulators(f"resnet8-{narrow.stem}", SAMPLE).layers
    ):
        row = rows[name]
        assert row.worst_bits is not None and wide.worst_bits is not None
        assert row.worst_low <= row.measured_low and row.measured_high <= row.worst_high  # type: ignore[operator]
        assert row.worst_bits <= wide.worst_bits - 2 or row.w_dtype is None
    weights = open_model(narrow).network.tensor("stack2.conv1.weight").integers().astype(np.int64)
    x = open_model(narrow).network.tensor("stack1.add.out").params
    centred = weights.reshape(len(weights), -1)
    low, high = x.qmin - int(x.zero_point), x.qmax - int(x.zero_point)
    most = (np.maximum(centred, 0) * high + np.minimum(centred, 0) * low).sum(axis=1)
    bias = open_model(narrow).network.tensor("stack2.conv1.bias").integers().astype(np.int64)
    assert rows["stack2.conv1"].worst_high == (most + bias).max()


def test_histograms_count_the_integers_in_use(narrow: Path, stated: dict[str, Array]) -> None:
    found = histograms(narrow, SAMPLE, ["stack2.conv1"], float_model="resnet8")["stack2.conv1.out"]
    real = stated["stack2.conv1.out"]
    assert (found["quantized"].min, found["quantized"].max) == (real.min(), real.max())


def test_trace_and_accumulators_say_how_many_bits_are_in_use(narrow: Path) -> None:
    told = trace_text(trace_value(narrow, "stack2.conv1", 0, (3, 4, 5), data=SAMPLE))
    kind = narrow.stem
    lines = {
        line.split()[0]: line for line in told.splitlines() if line[:3] in ("x  ", "w  ", "y  ")
    }
    assert f"{kind}, 6 of 8 bits" in lines["x"] and f"{kind}, 6 of 8 bits" in lines["y"]
    assert "int4" in lines["w"] and "of 8 bits" not in lines["w"]
    table = accumulator_table(accumulators(narrow, SAMPLE.take(1)))
    assert {row[1] for row in table.rows if row[0] != "pool"} == {f"{kind} (6 of 8 bits) × int4"}


def test_pairs_saturate_only_with_inputs_that_the_bits_in_use_allow(tmp_path: Path) -> None:
    def counts(base: str, bits: int) -> int:
        Editor(base).apply([SetBits("activations", bits)]).save(tmp_path / f"{base}{bits}.onnx")
        rows = accumulators(tmp_path / f"{base}{bits}.onnx", SAMPLE.take(1)).layers
        return sum(row.saturable_pairs or 0 for row in rows)

    assert counts("resnet8-uint8", 8) > 0 == counts("resnet8-uint8", 7)
    # As uint8, int8's zero is 128: six bits reach up to 159.
    assert 0 < counts("resnet8-int8", 6) < counts("resnet8-int8", 8)


def test_sixteen_bits_are_looked_at_in_the_kernels_that_ship(tmp_path: Path) -> None:
    edits: list[Edit] = [SetBits("stem.out", 16)]
    what_if = WhatIf("resnet8-int8", SAMPLE, execution="runtime", quick=len(SAMPLE))
    found = {row.name: row.sqnr_db for row in what_if.downstream_sqnr(edits).tensors}
    what_if.editor.apply(edits).save(tmp_path / "wide.onnx")
    whole = compare(tmp_path / "wide.onnx", SAMPLE, float_model="resnet8", execution="runtime")
    rows = {row.name: row.sqnr_db for row in whole.tensors}
    # The two look by different ways, and not all can be seen by both without changing a kernel.
    shared = {name for name in found.keys() & rows.keys() if rows[name] is not None}
    assert {"stem.out", "head.out"} <= shared
    for name in shared:
        assert found[name] == pytest.approx(rows[name], abs=1e-4)
