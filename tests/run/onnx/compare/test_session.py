"""The float half by faster kernels: only where nobody could tell, and never the quantized half."""

from importlib import import_module
from pathlib import Path
from platform import machine
from typing import Any

import numpy as np
import onnx
import pytest
from tiny_qdq import TinyQdq, images_of

from quantscope.data import load_sample
from quantscope.edit import Off, apply
from quantscope.model import Execution, bundled_models, load_onnx, pair_networks, read_onnx
from quantscope.run import evaluate
from quantscope.run.compare.compare import compare
from quantscope.run.onnx.compare.graph import ComparisonGraph, Detail, build_graph
from quantscope.run.onnx.compare.session import FEWEST_IMAGES, ComparisonSession, _same_sums

Array = np.ndarray[Any, Any]
comparing = import_module("quantscope.run.onnx.compare.joint_run")

IMAGES = load_sample().take(FEWEST_IMAGES)
x86_only = pytest.mark.skipif(
    machine().lower() not in ("x86_64", "amd64"), reason="other CPUs have no kernels with blocks"
)
ROWS = IMAGES.images.astype(np.float32)


def graph_of(model: Path, original: Path, detail: Detail = "full") -> ComparisonGraph:
    files = [load_onnx(path) for path in (original, model)]
    networks = [read_onnx(file) for file in files]
    protos = [file.load_proto() for file in files]
    return build_graph(*protos, networks[1], pair_networks(*networks), detail=detail)


def fed(graph: ComparisonGraph, rows: Array) -> dict[str, Array]:
    return {next(iter(graph.inputs.values())): rows}


def session_of(graph: ComparisonGraph, trial: Array) -> ComparisonSession:
    return ComparisonSession(graph, model="the model", trial=[fed(graph, trial)])


@pytest.mark.parametrize("detail", ["sqnr", "full"])
@pytest.mark.parametrize("name", ["resnet8-int8", "resnet8-uint8"])
def test_the_quantized_half_keeps_its_bits(name: str, detail: Detail) -> None:
    models = bundled_models()
    graph = graph_of(models[name], models["resnet8"], detail)
    session = session_of(graph, ROWS[:8])
    assert session.is_faster
    found = [session.run(fed(graph, ROWS[at : at + 16])) for at in range(0, 96, 16)]
    scores = np.concatenate([values[next(iter(graph.outputs.values()))] for values in found])
    stated = evaluate(name, IMAGES.take(96), execution="reference").scores
    np.testing.assert_array_equal(scores, stated)


def test_the_numbers_are_those_of_plain_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare("resnet8-uint8", IMAGES)
    monkeypatch.setattr(comparing, "FEWEST_IMAGES", len(IMAGES) + 1)
    plain = compare("resnet8-uint8", IMAGES)
    assert found.provenance["float kernels"] == "optimized"
    assert plain.provenance["float kernels"] == "plain"
    for one, other in zip(found.activations, plain.activations, strict=True):
        assert one.exact == other.exact
        assert one.sqnr_db == pytest.approx(other.sqnr_db, abs=1e-4)
        assert one.local_sqnr_db == pytest.approx(other.local_sqnr_db, abs=1e-4)
        assert one.clipped_high_fraction == pytest.approx(other.clipped_high_fraction, abs=1e-6)
        assert one.cosine == pytest.approx(other.cosine, abs=1e-7)
        if one.sources is not None:
            assert other.sources is not None
            for source in ("inherited", "weights", "rounding", "clipping"):
                shares = [getattr(each.sources, source) for each in (one, other)]
                assert shares[0] == pytest.approx(shares[1], abs=1e-5)
        for mine, theirs in zip(one.channels, other.channels, strict=True):
            assert mine.sqnr_db == pytest.approx(theirs.sqnr_db, abs=1e-2)


@pytest.mark.parametrize("execution", ["reference", "runtime"])
def test_threads_do_not_matter(execution: Execution) -> None:
    one, other = (
        compare("resnet8-uint8", IMAGES, threads=threads, execution=execution).to_dict()
        for threads in (1, 2)
    )
    assert one == other


def test_few_images_are_not_worth_a_second_session() -> None:
    found = compare("resnet8-uint8", IMAGES.take(FEWEST_IMAGES - 1), detail="sqnr")
    assert found.provenance["float kernels"] == "plain"


@x86_only
def test_a_layer_left_in_float_is_not_optimized_either(tmp_path: Path) -> None:
    path = tmp_path / "edited.onnx"
    edits = [Off("stack2.conv2.weight"), Off("stack2.conv2.bias")]
    onnx.save(apply("resnet8-uint8", edits).proto, path)
    graph = graph_of(path, bundled_models()["resnet8"])
    assert not session_of(graph, ROWS[:16]).is_faster


def cancelling(folder: Path, *, step: float) -> tuple[Path, Path]:
    """A convolution whose large terms leave little: what rounds otherwise is a sum's last bits."""
    rng = np.random.default_rng(3)
    half = rng.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8)
    integers = np.concatenate([half, -half], axis=1)
    paths = []
    for name in ("float.onnx", "quantized.onnx"):
        net = TinyQdq((16, 8, 8))
        if name == "float.onnx":
            weight = net.constant("w", integers.astype(np.float32) * np.float32(0.37))
            net.node("Conv", ["x", weight], "conv", pads=[1, 1, 1, 1])
            paths.append(net.save(folder, "conv", name))
        else:
            weight = net.stored("w", integers, np.float32(0.37))
            net.node("Conv", ["x", weight], "conv", pads=[1, 1, 1, 1])
            paths.append(net.save(folder, net.quantize("conv", step, 0, np.int16), name))
    return paths[1], paths[0]


@x86_only
@pytest.mark.parametrize(
    ("left", "step", "is_faster"), [(0.01, 0.004, False), (0.01, 4.0, False), (3.0, 4.0, True)]
)
def test_where_the_last_bits_show_plain_kernels_are_kept(
    left: float, step: float, is_faster: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    half = rng.normal(0, 3, (16, 8, 8, 8))
    rows = np.concatenate([half, half + rng.normal(0, left, half.shape)], axis=1)
    model, original = cancelling(tmp_path, step=step)
    assert session_of(graph_of(model, original), rows.astype(np.float32)).is_faster is is_faster


def test_images_from_first_to_last_decide(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    half = rng.normal(0, 3, (FEWEST_IMAGES, 8, 8, 8))
    rows = np.concatenate([half, half + rng.normal(0, 0.01, half.shape)], axis=1)
    rows[:100] = 0.0  # the first batches show no difference
    model, original = cancelling(tmp_path, step=0.004)
    found = compare(model, images_of(rows.astype(np.float32)), float_model=original)
    assert found.provenance["float kernels"] == "plain"


def test_what_is_not_finite_is_left_to_plain_kernels(tmp_path: Path) -> None:
    rows = np.ones((300, 16, 8, 8), np.float32)
    rows[2, 0, 0, 0] = np.inf
    model, original = cancelling(tmp_path, step=4.0)
    assert not session_of(graph_of(model, original), rows[:16]).is_faster
    found = compare(model, images_of(rows), float_model=original)
    assert found.not_finite_from is not None
    assert found.not_finite_from.endswith("1 of 300 images, first image 2")


UNITS = {
    **{name: name for name in ("signal", "error", "quantized_signal", "local_error")},
    **dict.fromkeys(("inherited", "weights", "clipping", "first_minus_second"), "error"),
    **dict.fromkeys(("clipped_high", "clipped_low", "not_zero"), None),
    **dict.fromkeys(("float_min", "float_max"), "float_max"),
}


@pytest.mark.parametrize("row", UNITS)
def test_a_twentieth_more_of_any_number_is_told_from_the_plain_one(row: str) -> None:
    models = bundled_models()
    graph = graph_of(models["resnet8-uint8"], models["resnet8"])
    plain = ComparisonSession(graph, model="the model").run(
        {next(iter(graph.inputs.values())): ROWS[:8]}
    )
    seen = 0
    for probe in graph.probes:
        names = probe.sum_names
        if row not in names:
            continue
        by_sum = probe.by_sum(plain[probe.output].copy())
        unit = UNITS[row]
        whole = by_sum[:, names.index(unit)] if unit else plain[probe.size_output] / by_sum.size
        assert _same_sums(probe, plain, plain)
        if not np.any(whole):
            continue
        by_sum[:, names.index(row)] += 0.05 * whole
        assert not _same_sums(probe, plain, {**plain, probe.output: by_sum})
        seen += 1
    assert seen
