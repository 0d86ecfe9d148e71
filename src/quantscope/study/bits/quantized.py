"""Quantize a float model with any number of bits for its weights and its activations."""

import tempfile
from dataclasses import replace
from pathlib import Path

from quantscope.data import Samples
from quantscope.edit import Applied, Editor, RangeRule
from quantscope.errors import BadConfigError
from quantscope.files import check_outputs
from quantscope.model import find_model
from quantscope.progress import Progress, silent
from quantscope.quantize import PtqConfig, Quantized, choose_images, quantize_onnx, quantize_torch
from quantscope.study.bits.ranges import choose_ranges
from quantscope.study.bits.results import Width, label_of


def quantize_with_bits(
    model: str | Path,
    output: Path,
    config: PtqConfig,
    *,
    weight_bits: Width = 8,
    activation_bits: Width = 8,
    ranges: RangeRule = "keep",
    calibration: Samples | None = None,
    onnx_output: Path | None = None,
    progress: Progress = silent,
) -> tuple[Quantized, Applied]:
    """Quantize a float model at 8 bits, then give weights and activations others.

    The ranges stay those of the calibration, or are chosen anew with the same samples. What is
    written equals that cell of a map of bits. A program of PyTorch keeps its 8-bit types, and its
    quantizers clip to fewer integers; `onnx_output` is where torch's goes as ONNX too.
    """
    path = find_model(model)
    check_outputs(filter(None, [output, onnx_output]), reads=[path])
    if config.format == "qoperator":
        raise BadConfigError(
            "qoperator has no place for bits other than its types'; use --format qdq"
        )

    def edited(made: Path, original: Path | None) -> Applied:
        editor = Editor(made, original)
        widths = [activation_bits]
        seen = None
        if ranges != "keep":
            opened = editor.model
            seen = choose_images(config, calibration, model=opened.name, ports=opened.inputs)
        chosen = choose_ranges(editor, ranges, widths, seen, progress=progress)
        return editor.apply(chosen.edits_for(weight_bits, activation_bits))

    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        base = Path(folder) / output.name
        onnx_base = None if onnx_output is None else Path(folder) / onnx_output.name
        if config.framework == "torch":
            made = quantize_torch(
                path,
                base,
                config,
                calibration=calibration,
                onnx_output=onnx_base,
                progress=progress,
            )
        else:
            made = quantize_onnx(path, base, config, calibration=calibration, progress=progress)
        applied = edited(base, path)
        # Both are made before either is written: what cannot be leaves no file behind.
        also = None if onnx_base is None else edited(onnx_base, None)
        digest = applied.save(output)
        onnx_digest = None if also is None or onnx_output is None else also.save(onnx_output)
    result = replace(
        made,
        path=output,
        digest=digest,
        size_bytes=output.stat().st_size,
        onnx_path=onnx_output,
        onnx_digest=onnx_digest,
        bits=label_of(weight_bits, activation_bits),
    )
    return result, applied
