"""Time the comparison of two PyTorch programs: ours against torchao's numeric debugger.

The peer keeps every tensor of both modules and then computes each SQNR, a batch at a time; most of
its tensors are those that a quantizer is given, ours those that it gives. It takes the quantized
tensor for the signal, `compute_sqnr` as we do the float one; agreement is printed both ways. Both
start with their models in memory; what opening the two files takes is printed apart. Run it with:
python -m benchmarks.pt2e_compare [IMAGES ...]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.compare import _images, status_mb

COUNTS = (1000,)
ROUNDS = 7  # of a few seconds each: more of them, since single ones are noisy
PEER_BATCH = 500  # quicker for it than 16, 32 or 100, as one batch of all is
AGREEMENT_IMAGES = 100
AIMS = {"sqnr": 3, "full": None}


def run(counts: tuple[int, ...] = COUNTS) -> None:
    """Print the ratios.

    Every number comes from a process of its own, ours and the peer's in turn.
    """
    print("comparison of a converted ResNet8 with its exported float program, PyTorch")
    with tempfile.TemporaryDirectory() as folder:
        agreement = _process("agreement", AGREEMENT_IMAGES, folder)
        for count in counts:
            rounds = [
                {how: _process(how, count, folder) for how in ("peer", "sqnr", "full")}
                for _ in range(ROUNDS)
            ]
            for how, aim in AIMS.items():
                ratios = [r["peer"]["seconds"] / r[how]["seconds"] for r in rounds]
                cpu = [r["peer"]["cpu_seconds"] / r[how]["cpu_seconds"] for r in rounds]
                seconds, opening, added, theirs = (
                    statistics.median(r[who][what] for r in rounds)
                    for who, what in (
                        (how, "seconds"),
                        (how, "opening_seconds"),
                        (how, "added_mb"),
                        ("peer", "added_mb"),
                    )
                )
                print(
                    f"  {count} images, {how}: {statistics.median(ratios):.2f} times faster "
                    f"({min(ratios):.2f} to {max(ratios):.2f}{f'; aim {aim}' if aim else ''}), "
                    f"{statistics.median(cpu):.2f} times less CPU time, {seconds:.2f} s and "
                    f"{opening:.2f} s to open both; {added:.0f} MB added at the peak, "
                    f"the peer {theirs:.0f} MB"
                )
    print(
        f"  agreement on {AGREEMENT_IMAGES} images: {agreement['after']:.0f} tensors after their "
        f"quantizer and {agreement['before']:.0f} before it, largest difference "
        f"{agreement['float_signal_db']:.4f} dB with the float tensor for the signal, "
        f"{agreement['as_given_db']:.4f} dB as the peer gives it (aim 0.05)"
    )


def _process(how: str, images: int, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.pt2e_compare", how, str(images), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{how} with {images} images failed: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _modules() -> tuple[Any, Any, Any]:
    """Make the exported program, its module and the converted one."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from quantscope.model import bundled_models
    from quantscope.quantize import PtqConfig
    from quantscope.quantize.pt2e_quantizer import PtqQuantizer
    from quantscope.zoo import build_torch, read_safetensors

    module = build_torch(read_safetensors(bundled_models()["resnet8-torch"]))
    exported = _exported(module)
    config = PtqConfig(framework="torch", torch_quantizer="quantscope")
    observed = prepare_pt2e(exported.module(), PtqQuantizer(config))
    observed(torch.from_numpy(_images(64).images.astype("float32")))
    return exported, exported.module(), convert_pt2e(observed)


def _exported(module: Any) -> Any:
    """Export a module with an open batch; an example of one row would fix it at 1."""
    import torch

    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    return torch.export.export(module, (torch.zeros(2, 3, 32, 32),), dynamic_shapes=({0: batch},))


def _save(folder: Path) -> tuple[Any, Any]:
    """Write both programs to files, and give the modules that the peer takes."""
    import torch

    exported, module, converted = _modules()
    torch.export.save(exported, folder / "float.pt2")
    torch.export.save(_exported(converted), folder / "quantized.pt2")
    return module, converted


def _debugged(module: Any, converted: Any, images: Any, batch: int) -> dict[str, tuple[str, Any]]:
    """Run the peer; give the converted node, SQNRs and results a batch by the float node's name."""
    import numpy as np
    import torch
    from torchao.quantization.pt2e import (
        compare_results,
        extract_results_from_loggers,
        prepare_for_propagation_comparison,
    )

    looked_into = [prepare_for_propagation_comparison(each) for each in (module, converted)]
    with torch.no_grad():
        for start in range(0, len(images), batch):
            part = torch.from_numpy(images[start : start + batch].astype(np.float32))
            for each in looked_into:
                each(part)
    results = compare_results(*map(extract_results_from_loggers, looked_into))
    return {
        info.name: (found.actual_node_name, [(float(r.sqnr), r) for r in found.results])
        for info, found in results.items()
    }


def _agreement(folder: Path, count: int) -> dict[str, float]:
    """Find the largest difference in dB between our SQNRs and the peer's."""
    import numpy as np
    from torch import Tensor

    from quantscope.run.compare.compare import compare
    from quantscope.run.runnable import open_runnable
    from quantscope.run.torch.nodes import run_nodes
    from quantscope.run.torch.runnable import program_of

    module, converted = _save(folder)
    images = _images(count)
    theirs = _debugged(module, converted, images.images, count)
    original, quantized = folder / "float.pt2", folder / "quantized.pt2"
    found = compare(quantized, images, float_model=original, detail="sqnr")
    ours = {tensor.float_name: tensor.sqnr_db for tensor in found.activations}

    def values_of(path: Path) -> dict[str, Any]:
        program = program_of(open_runnable(path))
        values = program.start({program.inputs[0]: images.images.astype(np.float32)})
        run_nodes(program.nodes, values, model=program.name)
        return {name: v.double() for name, v in values.items() if isinstance(v, Tensor)}

    f, q = values_of(original), values_of(quantized)
    counts = {"after": 0, "before": 0}
    largest = {"as_given_db": 0.0, "float_signal_db": 0.0}
    for name, (node, ((as_given, result),)) in theirs.items():
        is_after = node.startswith("dequantize")
        counts["after" if is_after else "before"] += 1
        mine = ours[name] if is_after else _sqnr(f[name], q[name])
        expected = {"as_given_db": as_given, "float_signal_db": _sqnr(result.ref, result.actual)}
        for key, value in expected.items():
            largest[key] = max(largest[key], abs((mine or 0.0) - value))
    return counts | largest


def _sqnr(signal: Any, other: Any) -> float:
    return float(20 * (signal.norm() / (signal - other).norm()).log10())


def _measured(how: str, count: int, folder: Path) -> dict[str, float]:
    from quantscope.quantize.pt2e import quiet_torch

    with quiet_torch():
        if how == "agreement":
            return _agreement(folder, count)
        if how == "peer":
            _, module, converted = _modules()
            return _timed(
                lambda n: _debugged(module, converted, _images(n).images, PEER_BATCH), count
            )
        from quantscope.run.compare.compare import compare_run
        from quantscope.run.runnable import open_runnable

        began = time.perf_counter()
        floats, quantized = (
            open_runnable(folder / name) for name in ("float.pt2", "quantized.pt2")
        )
        opening = time.perf_counter() - began
        found = _timed(
            lambda n: compare_run(quantized.against(floats, detail=how), _images(n)), count
        )
        return found | {"opening_seconds": opening}


def _timed(work: Any, count: int) -> dict[str, float]:
    work(100)  # what is loaded but once is not counted
    before = status_mb("VmRSS")
    began, cpu_began = time.perf_counter(), time.process_time()
    work(count)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "added_mb": max(status_mb("VmHWM") - before, 0.1),
    }


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ("agreement", "peer", "sqnr", "full"):
        print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
    else:
        run(tuple(map(int, sys.argv[1:])) or COUNTS)
