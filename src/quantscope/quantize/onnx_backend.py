"""Quantize ONNX models statically, with onnxruntime's `quantize_static`."""

import contextlib
import hashlib
import io
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.calibrate import save_tensors_data
from onnxruntime.quantization.shape_inference import quant_pre_process

from quantscope.data import Feeds, Intake, Samples
from quantscope.errors import BadConfigError, BadModelError
from quantscope.files import check_outputs, write_whole
from quantscope.model.onnx import OnnxFile, OnnxModel
from quantscope.progress import Progress, silent
from quantscope.quantize.calibration import METHODS, Ranges, tensor_ranges
from quantscope.quantize.config import ENTROPY_BINS, PtqConfig
from quantscope.quantize.images import batches, choose_images
from quantscope.quantize.layers import check_layers, tensor_overrides, written_tensor
from quantscope.quantize.result import (
    PROVENANCE_KEY,
    Quantized,
    make_provenance,
    no_data_warning,
    one_value_warning,
    provenance_text,
)

_TYPES = {
    "int8": QuantType.QInt8,
    "uint8": QuantType.QUInt8,
    "int16": QuantType.QInt16,
    "uint16": QuantType.QUInt16,
}


def quantize_onnx(
    float_path: Path,
    output: Path,
    config: PtqConfig,
    *,
    calibration: Samples | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> Quantized:
    """Quantize a float ONNX classifier into `output`; the same inputs write the same bytes.

    Without `calibration` its images are CIFAR-10's. Memory does not grow with their number.
    `threads` 0 is as many as there are cores.
    """
    if config.framework != "onnxruntime":
        raise BadConfigError(f"An ONNX model is quantized with onnxruntime, not {config.framework}")
    check_outputs([output], reads=[float_path])
    opened = OnnxModel(float_path, str(float_path))
    file = opened.file
    file.check_affordable()
    if file.format != "float":
        raise BadModelError(
            f"{float_path} is quantized already ({file.format}); give the float model that it "
            "was made from"
        )
    intake = Intake.of(opened)
    names = [node.name for node in file.hollow.graph.node if node.name]
    check_layers(config, names, model=str(float_path))
    images = choose_images(config, calibration, model=opened.name, ports=opened.inputs)
    batches(images, intake)  # says now what does not fit

    def feeds() -> Iterator[Feeds]:
        return batches(images, intake)

    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        prepared = Path(folder) / "prepared.onnx"
        pre_process(file, prepared)
        ranges = tensor_ranges(
            prepared, config, feeds, images=len(images), threads=threads, progress=progress
        )
        model = _quantize(prepared, ranges, config, folder=Path(folder))
    _keep_node_metadata(model, file)
    provenance = make_provenance(
        config, images, float_digest=file.digest, packages=("onnxruntime", "onnx", "numpy")
    )
    warnings = _warnings(model, ranges, config, images=len(images), source=float_path)
    content = finish(model, provenance)
    write_whole(output, content)
    return Quantized(
        path=output,
        digest=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        config=config,
        provenance=provenance,
        warnings=warnings,
    )


def pre_process(file: OnnxFile, output: Path) -> None:
    """Infer shapes, fold batch norm and constants; nodes that remain keep their names.

    Symbolic shape inference, which is slow, runs only where the plain one leaves a tensor unknown.
    """
    source = file.path
    if file.external_files:  # onnxruntime would look for them beside its own copy
        source = output.with_name("whole.onnx")
        onnx.save(file.load_proto(), source)
    for skip_symbolic in (True, False):
        try:
            with quiet():
                quant_pre_process(str(source), str(output), skip_symbolic_shape=skip_symbolic)
        except Exception as error:  # onnx and onnxruntime raise many kinds; each says what it met
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise BadModelError(
                f"{file.path} cannot be prepared for quantization: {reason}"
            ) from None
        graph = onnx.load(output).graph
        known = {value.name for value in [*graph.value_info, *graph.output]}
        if all(name in known for node in graph.node for name in node.output if name):
            return


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence onnxruntime's quantizer, which prints and logs for its own developers."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def _keep_node_metadata(model: onnx.ModelProto, file: OnnxFile) -> None:
    """Copy nodes' metadata, where exporters name their module; onnxruntime drops some of it."""
    known = {node.name: node.metadata_props for node in file.hollow.graph.node if node.name}
    for node in model.graph.node:
        metadata = known.get(node.name) or known.get(node.name.removesuffix("_quant"))
        if metadata and not node.metadata_props:
            node.metadata_props.extend(metadata)


def _quantize(
    prepared: Path, ranges: Ranges, config: PtqConfig, *, folder: Path
) -> onnx.ModelProto:
    cache, output = folder / "ranges.json", folder / "quantized.onnx"
    # Given ranges in a file, `quantize_static` does not calibrate by itself.
    save_tensors_data(ranges.data, cache)
    graph = onnx.load(prepared).graph
    overrides = tensor_overrides(graph, config, types=_TYPES)
    with quiet():
        quantize_static(
            prepared,
            output,
            quant_format=QuantFormat.QDQ if config.format == "qdq" else QuantFormat.QOperator,
            per_channel=config.per_channel,
            reduce_range=config.reduce_range,
            activation_type=_TYPES[config.activations or "int8"],
            weight_type=_TYPES[config.weights],
            nodes_to_exclude=list(config.left_float),
            calibrate_method=METHODS[config.calibration or "minmax"],
            calibration_cache_path=cache,
            extra_options={
                "ActivationSymmetric": config.symmetric_activations,
                "TensorQuantOverrides": overrides,
            },
        )
    model = onnx.load(output)
    _check_overrides(graph, config, made={tensor.name for tensor in model.graph.initializer})
    return model


def _check_overrides(graph: onnx.GraphProto, config: PtqConfig, *, made: set[str]) -> None:
    """Refuse overrides of activations that onnxruntime gave no quantizer."""
    nodes = {node.name: node for node in graph.node}
    for override in config.overrides:
        if not override.activations:
            continue
        if f"{written_tensor(graph, nodes[override.layer])}_scale" not in made:
            raise BadConfigError(
                f"What layer '{override.layer}' writes has no quantizer of its own; override the "
                "layer before it"
            )


def _warnings(
    model: onnx.ModelProto, ranges: Ranges, config: PtqConfig, *, images: int, source: Path
) -> tuple[str, ...]:
    """Name quantizers that calibration says little about; refuse a model without any."""
    quantized = {tensor.name.removesuffix("_scale") for tensor in model.graph.initializer}
    seen = {name: found for name, found in ranges.extremes.items() if name in quantized}
    if not seen:
        raise BadModelError(
            f"Nothing in {source} was quantized: it has no operator that onnxruntime quantizes, or "
            "all were left float"
        )
    found = [
        no_data_warning(name)
        if not extremes.count
        else one_value_warning(name, float(extremes.lowest), images=images)
        for name, extremes in sorted(seen.items())
        if not extremes.count or extremes.lowest == extremes.highest
    ]
    if config.calibration == "entropy" and config.histogram_bins == ENTROPY_BINS:
        found.append(
            "Entropy calibration with onnxruntime's own 128 bins has a single candidate, the "
            "whole range, so it is minmax; with --histogram-bins 2048 it searches"
        )
    return tuple(found)


def finish(model: onnx.ModelProto, provenance: dict[str, Any]) -> bytes:
    """Give the file's bytes, with its provenance and without opsets that no node uses."""
    used = {node.domain or "" for node in model.graph.node}
    opsets = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    entry = model.metadata_props.add()
    entry.key, entry.value = PROVENANCE_KEY, provenance_text(provenance)
    return bytes(model.SerializeToString(deterministic=True))
