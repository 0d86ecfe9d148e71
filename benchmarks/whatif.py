"""Time edits to logits, accuracy and flips: ours against running the whole changed model.

The peer gets the edited model for nothing: it builds a session and runs every image, in the same
batches and with the same threads. Run it with: python -m benchmarks.whatif [int8|uint8 ...]
"""

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.models import Pair, reference_pair

IMAGES = 1000
ROUNDS = 5
EDITS = 1000
TYPES = ("int8",)
AIMS = {"stack3": 5.0, "head": 5.0, "stack2": 2.0}
NOWHERE_BELOW = 1 / 1.1
_HEAD = ("pool", "flatten", "head")


@dataclass(frozen=True)
class Timed:
    """The times of one tensor's edits: medians over the rounds."""

    name: str
    group: str
    ratio: float
    cpu_ratio: float
    ours_ms: float
    peer_ms: float
    quick_ms: float
    sqnr_ms: float


def run(types: tuple[str, ...] = TYPES) -> None:
    for activations in types:
        with tempfile.TemporaryDirectory() as folder:
            pair = reference_pair(Path(folder), activations=activations)
            for execution in ("reference", "runtime"):
                print(f"what-if on {pair.name}, {execution} execution, {IMAGES} images")
                _report(pair, execution)


def _report(pair: Pair, execution: Any) -> None:
    from quantscope.data import load_sample
    from quantscope.run.whatif.whatif import WhatIf

    what_if = WhatIf(
        pair.quantized, load_sample(), float_model=pair.float_model, execution=execution
    )
    for full in (True, False):
        what_if.answer([], full=full)
        what_if.downstream_sqnr([], full=full)
    timed = [_timed(what_if, name, make) for name, make in _edits(what_if)]
    for group in dict.fromkeys(t.group for t in timed):
        found = sorted((t for t in timed if t.group == group), key=lambda t: t.ratio)
        print(
            f"  {group}: {statistics.median(t.ratio for t in found):.2f} times faster, "
            f"least {found[0].ratio:.2f} ({found[0].name}; aim "
            f"{AIMS.get(group, NOWHERE_BELOW):.2g}), most {found[-1].ratio:.2f}; "
            f"{statistics.median(t.cpu_ratio for t in found):.2f} times less CPU time; "
            f"{statistics.median(t.ours_ms for t in found):.0f} ms against "
            f"{statistics.median(t.peer_ms for t in found):.0f}"
        )
    quick = statistics.median(t.quick_ms for t in timed)
    second = statistics.median(t.sqnr_ms for t in timed)
    print(
        f"  {len(what_if.quick_images)} images, median over {len(timed)} tensors: {quick:.0f} ms "
        f"(aim 100), SQNR downstream {second:.0f} ms more"
    )
    runner: Any = what_if.runner().suffix  # type: ignore[attr-defined]
    sizes = runner.kept_bytes_an_image
    largest = max(sizes, key=lambda name: sizes[name])
    print(
        f"  kept: at most {sizes[largest]:,} bytes an image a value ({largest}; aim 20,000), "
        f"{sum(sizes.values()):,} in all"
    )
    _many_edits(what_if)


def _timed(what_if: Any, name: str, make: Callable[[int], Any]) -> Timed:
    rounds = [_round(what_if, make(number)) for number in range(ROUNDS)]
    ours, peer, ours_cpu, peer_cpu, quick, sqnr = zip(*rounds, strict=True)
    first = name.split(".", maxsplit=1)[0]
    return Timed(
        name=name,
        group="head" if first in _HEAD else first,
        ratio=statistics.median(p / o for p, o in zip(peer, ours, strict=True)),
        cpu_ratio=statistics.median(p / o for p, o in zip(peer_cpu, ours_cpu, strict=True)),
        ours_ms=1000 * statistics.median(ours),
        peer_ms=1000 * statistics.median(peer),
        quick_ms=1000 * statistics.median(quick),
        sqnr_ms=1000 * statistics.median(sqnr),
    )


def _round(what_if: Any, edit: Any) -> tuple[float, ...]:
    model = what_if.editor.apply([edit]).proto
    began, cpu = time.perf_counter(), time.process_time()
    effect = what_if.answer([edit], full=True)
    correct, gained = effect.evaluation.correct, len(effect.against_base.gained)
    ours, ours_cpu = time.perf_counter() - began, time.process_time() - cpu
    began, cpu = time.perf_counter(), time.process_time()
    assert (correct, gained) == _peer(what_if, model, effect.against_base.second)
    peer, peer_cpu = time.perf_counter() - began, time.process_time() - cpu
    began = time.perf_counter()
    what_if.answer([edit])
    quick = time.perf_counter() - began
    began = time.perf_counter()
    what_if.downstream_sqnr([edit])
    return ours, peer, ours_cpu, peer_cpu, quick, time.perf_counter() - began


def _peer(what_if: Any, model: Any, base: Any) -> tuple[int, int]:
    """Count right answers, and those that the unedited model does not give."""
    import numpy as np

    from quantscope.run.onnx.sessions import session_of

    session = session_of(model, what_if.execution, int8_kernels=what_if.int8_kernels)
    images, parts = what_if.images, []
    for start in range(0, len(images), 256):
        rows = images.images[start : start + 256].astype(np.float32)
        parts.append(session.run(None, {session.get_inputs()[0].name: rows})[0])
    right = np.concatenate(parts).argmax(axis=1) == images.labels
    return int(right.sum()), int((right & (base.predictions != base.labels)).sum())


def _edits(what_if: Any) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Give for every tensor another edit each round: scales, and a bias's integers."""
    from quantscope.edit import SetInteger, SetScale

    for tensor in what_if.editor.network.tensors:
        if tensor.role == "bias":
            first = int(tensor.integers().reshape(-1)[0])
            index = (0,) * len(tensor.shape)
            yield (
                tensor.name,
                lambda n, t=tensor.name, i=index, v=first: SetInteger(t, i, v + 50 + n),
            )
        else:
            yield tensor.name, lambda n, t=tensor.name: SetScale(t, factor=1.02 + n / 50)


def _many_edits(what_if: Any) -> None:
    """Show that memory stays the same over many edits."""
    edits = [make for _, make in _edits(what_if)]
    before = 0.0
    for number in range(EDITS):
        what_if.answer([edits[number % len(edits)](number)])
        if number == EDITS // 10 - 1:
            gc.collect()
            before = _resident_mb()
    gc.collect()
    after = _resident_mb()
    print(
        f"  {EDITS} edits in a row: {before:.0f} MB after {EDITS // 10}, {after:.0f} MB after all "
        f"({after - before:+.1f})"
    )


def _resident_mb() -> float:
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    run(tuple(sys.argv[1:]) or TYPES)
