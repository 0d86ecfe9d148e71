"""Quantize ONNX models statically, with onnxruntime's `quantize_static`."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.calibrate import save_tensors_data
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

from quantscope.data import Intake, Samples
from quantscope.errors import BadConfigError, BadModelError
from quantscope.files import check_outputs, write_whole
from quantscope.model.onnx import OnnxFile, OnnxModel, sort_nodes, subgraphs
from quantscope.progress import Progress, silent
from quantscope.quantize.calibration import METHODS, Ranges, tensor_ranges
from quantscope.quantize.config import ENTROPY_BINS, PtqConfig
from quantscope.quantize.images import CalibrationRows, choose_images
from quantscope.quantize.layers import (
    FOLDED,
    WITH_WEIGHTS,
    Pieces,
    check_layers,
    find_pieces,
    name_written_tensor,
    nodes_by_layer,
    tensor_overrides,
)
from quantscope.quantize.lost_biases import lost_biases
from quantscope.quantize.onnx_prepare import first_line, pre_process, quiet
from quantscope.quantize.result import (
    PROVENANCE_KEY,
    Quantized,
    make_provenance,
    no_data_warning,
    one_value_warning,
    provenance_text,
    random_warnings,
)

_AXIS_OPSET = 13  # before it, QuantizeLinear and DequantizeLinear know no axis
_BOUNDLESS = "1e30 and more"
_QUANTIZED_KINDS = frozenset(QDQRegistry) | frozenset(QLinearOpsRegistry)

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
    """Quantize a float ONNX model into `output`; the same inputs write the same bytes.

    Without `calibration` the rows are CIFAR-10's images, where the model takes them. Memory does
    not grow with their number. `threads` 0 is as many as there are cores.
    """
    if config.framework != "onnxruntime":
        raise BadConfigError(f"An ONNX model is quantized with onnxruntime, not {config.framework}")
    check_outputs([output], reads=[float_path])
    opened = OnnxModel(float_path, str(float_path))
    file = opened.file
    file.check_affordable()
    file.check_float()
    intake = Intake.of(opened)
    floats = nodes_by_layer(file.hollow.graph, opened.network)
    check_layers(config, floats, model=str(float_path))
    rows = CalibrationRows(
        choose_images(config, calibration, model=opened.name, ports=opened.inputs), intake
    )
    with tempfile.TemporaryDirectory(prefix="quantscope-") as folder:
        prepared = Path(folder) / "prepared.onnx"
        pre_process(
            file,
            prepared,
            least_opset=_least_opset(config),
            layer_names={
                node.output[0]: name
                for name, node in floats.items()
                if node.output and not node.name
            },
        )
        graph = onnx.load(prepared).graph
        pieces = find_pieces(config, floats, file.hollow.graph, graph)
        ranges = tensor_ranges(prepared, config, rows, threads=threads, progress=progress)
        model = _quantize(prepared, ranges, config, pieces, source=float_path)
    _keep_node_metadata(model, file)
    provenance = make_provenance(
        config, rows.samples, float_digest=file.digest, packages=("onnxruntime", "onnx", "numpy")
    )
    warnings = (
        *random_warnings(rows.samples),
        *_bias_warnings(graph, config, pieces),
        *_warnings(model, ranges, config, pieces, images=len(rows), source=float_path),
    )
    content = finish(model, provenance)
    _check_written(content, source=float_path)
    write_whole(output, content)
    return Quantized.of(content, output, config, provenance, warnings)


def _keep_node_metadata(model: onnx.ModelProto, file: OnnxFile) -> None:
    """Copy nodes' metadata, where exporters name their module; onnxruntime drops some of it."""
    known = {node.name: node.metadata_props for node in file.hollow.graph.node if node.name}
    for node in model.graph.node:
        metadata = known.get(node.name) or known.get(node.name.removesuffix("_quant"))
        if metadata and not node.metadata_props:
            node.metadata_props.extend(metadata)


def _least_opset(config: PtqConfig) -> int:
    """Say from which opset on a file can state what the config wants: scales along an axis."""
    per_channel = config.per_channel or any(override.per_channel for override in config.overrides)
    return _AXIS_OPSET if per_channel and config.format == "qdq" else 0


def _quantize(
    prepared: Path,
    ranges: Ranges,
    config: PtqConfig,
    pieces: Mapping[str, Pieces],
    *,
    source: Path,
) -> onnx.ModelProto:
    cache, output = (prepared.with_name(name) for name in ("ranges.json", "quantized.onnx"))
    # Given ranges in a file, `quantize_static` does not calibrate by itself.
    save_tensors_data(ranges.data, cache)
    graph = onnx.load(prepared).graph
    overrides = tensor_overrides(graph, config, pieces, types=_TYPES)
    left = {piece.name for layer in config.left_float for piece in pieces[layer]}
    left.update(node.name for node in _kept_float(graph, ranges))
    left.update(name for name, _ in lost_biases(graph, is_qoperator=config.format == "qoperator"))
    try:
        with quiet(), _where_as_it_is():
            quantize_static(
                prepared,
                output,
                quant_format=QuantFormat.QDQ if config.format == "qdq" else QuantFormat.QOperator,
                per_channel=config.per_channel,
                reduce_range=config.reduce_range,
                activation_type=_TYPES[config.activations or "int8"],
                weight_type=_TYPES[config.weights],
                nodes_to_exclude=sorted(left),
                calibrate_method=METHODS[config.calibration or "minmax"],
                calibration_cache_path=cache,
                extra_options={
                    "ActivationSymmetric": config.symmetric_activations,
                    "TensorQuantOverrides": overrides,
                },
            )
    except Exception as error:  # of any kind: it meets graphs that it was not written for
        raise BadModelError(
            f"onnxruntime {version('onnxruntime')} cannot quantize {source}: {first_line(error)}; "
            "leave layers float with --exclude, or try --format "
            f"{'qoperator' if config.format == 'qdq' else 'qdq'}"
        ) from None
    model = onnx.load(output)
    # The quantizer's own order does not look into branches and loops.
    sort_nodes(model.graph)
    made = {tensor.name for tensor in model.graph.initializer}
    _check_overrides(graph, config, pieces, made=made)
    return model


@contextlib.contextmanager
def _where_as_it_is() -> Iterator[None]:
    """Keep onnxruntime from leaving a Where float without giving it float inputs (QOperator)."""
    quantizer = QLinearOpsRegistry.pop("Where", None)
    try:
        yield
    finally:
        if quantizer is not None:
            QLinearOpsRegistry["Where"] = quantizer


def _kept_float(graph: onnx.GraphProto, ranges: Ranges) -> list[onnx.NodeProto]:
    """List the nodes that must stay as they are: on tensors without a range, or for branches.

    A ReLU whose values a branch or a loop reads would be taken away from under it.
    """
    boundless, inner = set(ranges.boundless), _read_inside(graph)
    return [
        node
        for node in graph.node
        if not boundless.isdisjoint((*node.input, *node.output))
        or (node.op_type in FOLDED and not inner.isdisjoint(node.output))
    ]


def _read_inside(graph: onnx.GraphProto) -> set[str]:
    """Name what the graphs inside nodes read, their own values among it."""
    found: set[str] = set()
    for node in graph.node:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                found.update(name for each in inner.node for name in each.input)
                found.update(value.name for value in inner.output)
                found |= _read_inside(inner)
    return found


def _check_overrides(
    graph: onnx.GraphProto, config: PtqConfig, pieces: Mapping[str, Pieces], *, made: set[str]
) -> None:
    """Refuse overrides of activations that onnxruntime gave no quantizer."""
    for override in config.overrides:
        if not override.activations:
            continue
        if f"{name_written_tensor(graph, pieces[override.layer][0])}_scale" not in made:
            raise BadConfigError(
                f"What layer '{override.layer}' writes has no quantizer of its own; override the "
                "layer before it"
            )


def _warnings(
    model: onnx.ModelProto,
    ranges: Ranges,
    config: PtqConfig,
    pieces: Mapping[str, Pieces],
    *,
    images: int,
    source: Path,
) -> tuple[str, ...]:
    """Name quantizers that calibration says little about; refuse a model without any."""
    quantized = {tensor.name.removesuffix("_scale") for tensor in model.graph.initializer}
    seen = {name: found for name, found in ranges.extremes.items() if name in quantized}
    enclosed = _enclosed(model.graph)
    if not seen:
        inside = f"; its layers stand inside {enclosed}, which is not entered" if enclosed else ""
        raise BadModelError(
            f"Nothing in {source} was quantized: it has no operator that onnxruntime quantizes, or "
            f"all were left float{inside}"
        )
    found = [
        no_data_warning(name)
        if not extremes.count
        else one_value_warning(name, float(extremes.lowest), images=images)
        for name, extremes in sorted(seen.items())
        if not extremes.count or extremes.lowest == extremes.highest
    ]
    if enclosed:
        found.append(f"The layers inside {enclosed} stay float: they are not entered")
    if ranges.boundless:
        first, *others = ranges.boundless
        what = f"Tensors '{first}' and {len(others)} more have" if others else f"'{first}' has"
        found.append(
            f"{what} values of {_BOUNDLESS} or infinity, as masks have them, and so no range; the "
            "layers that read or write such stay float"
        )
    for layer in config.left_float:
        if not any(piece.op_type in _QUANTIZED_KINDS for piece in pieces[layer]):
            kinds = " and ".join(dict.fromkeys(piece.op_type for piece in pieces[layer]))
            found.append(f"Layer '{layer}' is float in any case: {kinds} has no quantized form")
    if config.calibration == "entropy" and config.histogram_bins == ENTROPY_BINS:
        found.append(
            "Entropy calibration with onnxruntime's own 128 bins has a single candidate, the "
            "whole range, so it is minmax; with --histogram-bins 2048 it searches"
        )
    return tuple(found)


def _bias_warnings(
    graph: onnx.GraphProto, config: PtqConfig, pieces: Mapping[str, Pieces]
) -> Iterator[str]:
    """Say which layers stay float for their biases' sake, but for those that were to be float."""
    asked = {piece.name for layer in config.left_float for piece in pieces[layer]}
    for name, why in lost_biases(graph, is_qoperator=config.format == "qoperator"):
        if name not in asked:
            yield f"Layer '{name}' stays float: {why}, and onnxruntime would store that bias wrong"


def _enclosed(graph: onnx.GraphProto) -> str:
    """Name the first node with layers inside that could be quantized, empty where there is none."""
    for node in graph.node:
        inside = [inner for attribute in node.attribute for inner in subgraphs(attribute)]
        if any(each.op_type in WITH_WEIGHTS for inner in inside for each in inner.node):
            return f"'{node.name}' ({node.op_type})"
        if any(_enclosed(inner) for inner in inside):
            return f"'{node.name}' ({node.op_type})"
    return ""


def _check_written(content: bytes, *, source: Path) -> None:
    """Refuse to write what is no valid model, or what onnxruntime does not open."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        _check_format(content, source)
    except Exception as error:  # both raise many kinds
        raise BadModelError(
            f"What onnxruntime {version('onnxruntime')} made of {source} is no valid model: "
            f"{first_line(error)}; try other types, another --format, or --exclude LAYER"
        ) from None


def _check_format(content: bytes, source: Path) -> None:
    try:
        onnx.checker.check_model(content)
    except onnx.checker.ValidationError:
        # Some liberties that runtimes allow, such as inputs without a shape, are the float file's.
        if _is_valid(source):
            raise


def _is_valid(path: Path) -> bool:
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError:
        return False
    return True


def finish(model: onnx.ModelProto, provenance: dict[str, Any]) -> bytes:
    """Give the file's bytes, with its provenance and without opsets that no node uses."""
    used = {node.domain or "" for node in model.graph.node}
    opsets = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    entry = model.metadata_props.add()
    entry.key, entry.value = PROVENANCE_KEY, provenance_text(provenance)
    return bytes(model.SerializeToString(deterministic=True))
