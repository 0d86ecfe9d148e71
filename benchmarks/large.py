"""Measure a network shaped as ResNet50 with few rows, and a graph of 1,000 layers.

Where the other benchmarks have many small images and short operators, here the network itself is
what takes time and memory. Every number comes from a process of its own; the ratios are those of
one run, ours and the peers' in turn. Run it with: python -m benchmarks.large [PART ...]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.compare import peer_compares, status_mb
from benchmarks.large_models import pictures, resnet50_pair, write_chain
from benchmarks.models import Pair

ROWS = 24
ROUNDS = 3
PEER_BATCH = 8
NAIVE_LAYERS = 8
"""Switched in the plain loop, whose layers all cost the same; the others are counted, not run."""
WHAT_IF_LAYERS = {"early": 0.15, "middle": 0.5, "late": 0.85}
"""The edited activations, by their place in the network."""
CHAINS = (250, 500, 1000)
MB = 1 << 20
PLAYGROUND_LIMIT_MB = 1000


def run(parts: tuple[str, ...] = ()) -> None:
    chosen = parts or tuple(PARTS)
    with tempfile.TemporaryDirectory() as folder:
        if set(chosen) - {"chain"}:
            pair = resnet50_pair(Path(folder))
            print(f"{pair.name}, {ROWS} rows of 224x224, reference execution")
        for part in chosen:
            PARTS[part](Path(folder)) if part == "chain" else PARTS[part](pair)


def report_comparison(pair: Pair) -> None:
    hows = ("peer", "sqnr", "full")
    rounds = [{how: measure(how, pair) for how in hows} for _ in range(ROUNDS)]
    for how, aim in (("full", 2), ("sqnr", 4)):
        print(f"  compare, {how}: {_faster(rounds, how, 'peer')} than qdq_loss_debug (aim {aim})")
    memory = {how: statistics.median(r[how]["added_mb"] for r in rounds) for how in hows}
    print(
        f"  compare, full: {memory['full']:.0f} MB added at the peak, the peer "
        f"{memory['peer']:.0f} MB: {memory['full'] / memory['peer']:.3f} of it (aim 0.125)"
    )


def report_what_if(pair: Pair) -> None:
    rounds = [measure("what-if", pair) for _ in range(ROUNDS)]
    first = [r["first"] / r["evaluation"] for r in rounds]
    print(
        f"  what-if, first answer: {statistics.median(first):.2f} evaluations of the model "
        f"({min(first):.2f} to {max(first):.2f}; aim 1.5), "
        f"{statistics.median(r['first'] for r in rounds):.2f} s"
    )
    for place in WHAT_IF_LAYERS:
        later = [r["evaluation"] / r[place] for r in rounds]
        print(
            f"  what-if, a later answer, {place} in the network: "
            f"{statistics.median(later):.2f} times faster than an evaluation "
            f"({min(later):.2f} to {max(later):.2f})"
        )


def report_sensitivity(pair: Pair) -> None:
    rounds = [{how: measure(how, pair) for how in ("ours", "naive")}]
    rows = rounds[0]["ours"]["rows"]
    print(
        f"  sensitivity of {rows:.0f} layers: {_faster(rounds, 'ours', 'naive')} than a loop that "
        f"rebuilds and runs the model (aim 2); {rounds[0]['ours']['added_mb']:.0f} MB added"
    )


def report_playground(pair: Pair) -> None:
    from tools import find_browser

    browser_path = find_browser.find()
    if browser_path is None:
        print("  playground: no Chromium was found; install one with: make browser")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        resident, peak = _playground_mb(browser, pair, _rows_file(Path(folder)))
        browser.close()
    print(
        f"  playground with it open: {resident:.0f} MB, {peak:.0f} MB at its peak "
        f"(aim {PLAYGROUND_LIMIT_MB})"
    )


def report_chain(folder: Path) -> None:
    """Show that what is done for each layer does not hang on how many there are."""
    from quantscope.model import open_model, pair_networks
    from quantscope.quantize import PtqConfig, quantize_onnx

    seconds: dict[int, float] = {}
    for layers in CHAINS:
        floats = write_chain(folder / f"chain{layers}.onnx", layers)
        quantized = folder / f"chain{layers}-int8.onnx"
        config = PtqConfig(activations="int8", calibration_images=2)
        quantize_onnx(floats, quantized, config, calibration=pictures(2, side=6, classes=2))
        command = [sys.executable, "-m", "quantscope", "inspect", str(quantized)]
        inspected = _seconds(lambda c=command: subprocess.run(c, check=True, capture_output=True))
        networks = [open_model(path).network for path in (floats, quantized)]
        seconds[layers] = min(_seconds(lambda n=networks: pair_networks(*n)) for _ in range(ROUNDS))
        print(
            f"  {layers} layers: inspect {inspected:.2f} s (aim 5), pairing {seconds[layers]:.3f} s"
        )
    grows = seconds[CHAINS[-1]] / seconds[CHAINS[0]] / (CHAINS[-1] / CHAINS[0])
    print(f"  pairing, a layer of {CHAINS[-1]} against one of {CHAINS[0]}: {grows:.2f} (aim 1.3)")


PARTS: dict[str, Callable[[Any], None]] = {
    "comparison": report_comparison,
    "what-if": report_what_if,
    "sensitivity": report_sensitivity,
    "playground": report_playground,
    "chain": report_chain,
}


def measure(how: str, pair: Pair) -> dict[str, float]:
    """Measure one way in a fresh process."""
    models = str(pair.quantized), str(pair.float_model)
    command = [sys.executable, "-m", "benchmarks.large", "measure", how, *models]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{how} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _faster(rounds: list[dict[str, dict[str, float]]], ours: str, peer: str) -> str:
    ratios = [r[peer]["seconds"] / r[ours]["seconds"] for r in rounds]
    cpu = [r[peer]["cpu_seconds"] / r[ours]["cpu_seconds"] for r in rounds]
    return (
        f"{statistics.median(ratios):.2f} times faster ({min(ratios):.2f} to {max(ratios):.2f}), "
        f"{statistics.median(cpu):.2f} times less CPU time, "
        f"{statistics.median(r[ours]['seconds'] for r in rounds):.1f} s"
    )


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _work(how: str, quantized: str, float_model: str) -> Callable[[Any], float]:
    """Give what is timed, a function of samples; it gives how many layers it was for."""

    def compares(detail: Any) -> Callable[[Any], float]:
        from quantscope.run.compare import compare

        return lambda images: len(
            compare(quantized, images, float_model=float_model, detail=detail).tensors
        )

    if how == "peer":
        return lambda images: peer_compares(images, float_model, quantized, batch=PEER_BATCH)
    if how in ("sqnr", "full"):
        return compares(how)
    from quantscope.study.sensitivity import sensitivity

    return lambda images: len(sensitivity(quantized, images, float_model=float_model).rows)


def _measured(how: str, *models: str) -> dict[str, float]:
    work = _work(how, *models)
    images = pictures(ROWS)  # the caller's, whoever compares: not counted
    if how != "ours":
        work(pictures(1))  # nor what is loaded but once
    before = status_mb("VmRSS")
    began, cpu_began = time.perf_counter(), time.process_time()
    rows = work(images)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "added_mb": max(status_mb("VmHWM") - before, 0.1),
        "rows": rows,
    }


def _measured_naive(quantized: str, float_model: str) -> dict[str, float]:
    """Edit, open a session and evaluate all rows for some layers; counted as all of them."""
    from quantscope.edit import Editor, Off
    from quantscope.run import compare_evaluations, evaluate

    editor, images = Editor(quantized, float_model), pictures(ROWS)
    layers = [layer.name for layer in editor.network.layers if layer.is_quantized]
    chosen = layers[:: max(1, len(layers) // NAIVE_LAYERS)]
    began, cpu_began = time.perf_counter(), time.process_time()
    evaluate(float_model, images, execution="reference")
    base = evaluate(quantized, images, execution="reference")
    once, cpu_once = time.perf_counter() - began, time.process_time() - cpu_began
    began, cpu_began = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "variant.onnx"
        for layer in chosen:
            editor.apply([Off(layer)]).save(path)
            compare_evaluations(evaluate(path, images, execution="reference"), base)
    share = len(layers) / len(chosen)
    return {
        "seconds": once + share * (time.perf_counter() - began),
        "cpu_seconds": cpu_once + share * (time.process_time() - cpu_began),
        "rows": len(layers),
    }


def _measured_what_if(quantized: str, float_model: str) -> dict[str, float]:
    """Time an evaluation of the model, the first answer to an edit, and later ones."""
    from quantscope.edit import SetScale
    from quantscope.run import evaluate
    from quantscope.run.whatif import WhatIf

    images = pictures(ROWS)
    evaluate(quantized, pictures(1), execution="reference")  # what is loaded but once
    found = {
        "evaluation": _seconds(lambda: evaluate(quantized, images, execution="reference")),
    }
    what_if = WhatIf(quantized, images, float_model=float_model)
    names = [t.name for t in what_if.editor.network.tensors if t.role == "activation"]
    edited = {place: names[int(at * len(names))] for place, at in WHAT_IF_LAYERS.items()}
    first = SetScale(edited["middle"], factor=1.1)
    found["first"] = _seconds(lambda: what_if.answer([first], full=True))
    found["kept_mb"] = what_if.kept_bytes / MB
    for place, name in edited.items():
        # The first edit of a tensor keeps what its quantizer reads, the next ones start there.
        for factor in (1.2, 1.3, 1.4):
            edit = SetScale(name, factor=factor)
            found[place] = _seconds(lambda e=edit: what_if.answer([e], full=True))
    return found


def _rows_file(folder: Path) -> Path:
    import numpy as np

    images = pictures(ROWS)
    path = folder / "rows.npz"
    np.savez(path, images=images.images, labels=images.labels)
    return path


def _playground_mb(browser: Any, pair: Pair, rows: Path) -> tuple[float, float]:
    """Give the memory of the page's process, now and at its peak, when all that it opens is there.

    The page measures by itself when it opens; then a scale is moved and an answer waited for.
    """
    from tools.serve_play import serving

    from benchmarks.playground import SECONDS

    arguments = [str(pair.quantized), "--float", str(pair.float_model), "--data", str(rows)]
    with serving(*arguments) as served:
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(served.way_in)
        page.get_by_test_id("accuracy-float").filter(has_text="%").wait_for()
        page.locator('[data-testid="job-start"]').first.wait_for()
        page.get_by_test_id("tab-What if").click()
        page.get_by_test_id("slider-scale").press("ArrowRight")
        page.get_by_test_id("edited-accuracy").filter(has_text="%").wait_for()
        resident, peak = (status_mb(field, served.pid) for field in ("VmRSS", "VmHWM"))
        page.close()
    return resident, peak


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        special = {"naive": _measured_naive, "what-if": _measured_what_if}
        how, *models = sys.argv[2:]
        result = special[how](*models) if how in special else _measured(how, *models)
        print(json.dumps(result))
    else:
        run(tuple(sys.argv[1:]))
