"""Quantize a float model with any number of bits for its weights and its activations."""

import tempfile
from pathlib import Path

from quantscope.data import Samples
from quantscope.edit import Applied, Editor
from quantscope.files import check_outputs
from quantscope.model import find_model
from quantscope.progress import Progress, silent
from quantscope.quantize import PtqConfig, Quantized, quantize_onnx
from quantscope.study.bits.cells import edits_for


def quantize_with_bits(
    model: str | Path,
    output: Path,
    config: PtqConfig,
    *,
    weight_bits: int = 8,
    activation_bits: int = 8,
    calibration: Samples | None = None,
    progress: Progress = silent,
) -> tuple[Quantized, Applied]:
    """Quantize a float ONNX model at 8 bits, then give weights and activations others.

    The ranges stay those of the calibration. What is written equals that cell of a map of bits.
    """
    path = find_model(model)
    check_outputs([output], reads=[path])
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        base = Path(folder) / output.name
        made = quantize_onnx(path, base, config, calibration=calibration, progress=progress)
        applied = Editor(base, path).apply(edits_for(weight_bits, activation_bits))
        applied.save(output)
    return made, applied
