"""This module gives a network as plain values for JSON.

docs/ describes the fields of each schema version.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from quantscope.model.network import Array, Layer, Network, Operand, QuantParams, QuantTensor
from quantscope.model.residuals import Residual, residuals

SCHEMA_VERSION = 1


def network_to_dict(network: Network, *, full: bool = False) -> dict[str, Any]:
    """Give everything but weights; `full` gives every scale and zero-point, not a summary.

    NaN and infinity are None; `not_finite` then names the place and says what stood there.
    """
    content = {
        "schema_version": SCHEMA_VERSION,
        "kind": "network",
        "file": network.path.name,
        "digest": network.digest,
        "format": network.format,
        "is_quantized": network.is_quantized,
        "opset": network.opset,
        "producer": network.producer,
        "metadata": dict(network.metadata),
        "batch": network.batch,
        "notes": list(network.notes),
        "macs": network.macs,
        "weight_bytes": network.weight_bytes,
        "peak_live_bytes": network.peak_live_bytes,
        "inputs": [_operand(operand) for operand in network.inputs],
        "outputs": [_operand(operand) for operand in network.outputs],
        "layers": [_layer(layer) for layer in network.layers],
        "tensors": [_tensor(tensor, full=full) for tensor in network.tensors],
        "residuals": [_residual(residual) for residual in residuals(network)],
    }
    return json_safe(content)


def params_to_dict(params: QuantParams, *, full: bool = False) -> dict[str, Any]:
    """Give parameters as plain values: numbers per tensor, else a summary or, `full`, lists."""
    low, high = params.representable_range
    is_single = params.is_per_tensor
    show = _number if is_single else (_listed if full else _summary)
    return {
        "dtype": params.dtype,
        "bits": params.bits,
        "type_bits": params.type_bits,
        "per_channel": not is_single,
        "axis": params.axis,
        "block_size": params.block_size or None,
        "count": int(params.scale.size),
        "scale": show(params.scale.astype(np.float64)),
        "zero_point": show(params.zero_point),
        "step": show(params.step),
        "range_low": show(low),
        "range_high": show(high),
        "qmin": params.qmin,
        "qmax": params.qmax,
    }


def json_safe(content: dict[str, Any]) -> dict[str, Any]:
    """Give the same with None for NaN and infinity, and `not_finite` saying where and which."""
    not_finite: dict[str, str] = {}
    safe = {key: _safe(value, key, not_finite) for key, value in content.items()}
    return {**safe, "not_finite": not_finite}


def _safe(value: Any, place: str, not_finite: dict[str, str]) -> Any:
    if isinstance(value, float) and not isfinite(value):
        not_finite[place] = str(value)
        return None
    if isinstance(value, Mapping):
        return {key: _safe(inner, f"{place}.{key}", not_finite) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(inner, f"{place}[{i}]", not_finite) for i, inner in enumerate(value)]
    return value


def _number(values: Array) -> Any:
    return values.item()


def _listed(values: Array) -> Any:
    return values.tolist()


def _summary(values: Array) -> dict[str, Any]:
    """Give the extremes, their channels (places in a flat list for blocks) and the mean."""
    return {
        "min": values.min().item(),
        "max": values.max().item(),
        "mean": float(values.mean()),
        "argmin": int(values.argmin()),
        "argmax": int(values.argmax()),
    }


def _operand(operand: Operand) -> dict[str, Any]:
    return {
        "name": operand.name,
        "role": operand.role,
        "dtype": operand.dtype,
        "shape": None if operand.shape is None else list(operand.shape),
        "source": operand.source,
        "tensor": operand.quant.name if operand.quant else None,
        "run_time_dtype": operand.run_time_dtype,
    }


def _layer(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "op_type": layer.op_type,
        "file_op_type": layer.file_op_type,
        "domain": layer.domain,
        "node_name": layer.node_name,
        "is_quantized": layer.is_quantized,
        "inputs": [_operand(operand) for operand in layer.inputs],
        "outputs": [_operand(operand) for operand in layer.outputs],
        "attributes": dict(layer.attributes),
        "subgraphs": list(layer.subgraphs),
        "macs": layer.macs,
        "weight_bytes": layer.weight_bytes,
        "live_bytes": layer.live_bytes,
    }


def _tensor(tensor: QuantTensor, *, full: bool) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "role": tensor.role,
        "shape": None if tensor.shape is None else list(tensor.shape),
        "producer": tensor.producer,
        "consumers": list(tensor.consumers),
        "has_data": tensor.has_data,
        "clips_negatives": tensor.clips_negatives,
        "folded_relu": tensor.folded_relu,
        "shares_params_with": list(tensor.shares_params_with),
        "follows": tensor.follows,
        "float_name": tensor.float_name,
        "integer_names": list(tensor.integer_names),
        "dequantized_names": list(tensor.dequantized_names),
        "scale_name": tensor.scale_name,
        "zero_point_name": tensor.zero_point_name,
        "params": params_to_dict(tensor.params, full=full),
    }


def _residual(residual: Residual) -> dict[str, Any]:
    return {
        "layer": residual.layer,
        "op_type": residual.op_type,
        "ratio": residual.ratio,
        "ratio_bits": residual.ratio_bits,
        "output": residual.output,
        "output_step": residual.output_step,
        "smaller": residual.smaller.tensor,
        "branches": [
            {
                "tensor": branch.tensor,
                "source": branch.source,
                "step": branch.step,
                "bits": branch.bits,
                "bits_lost": branch.bits_lost,
                "effective_bits": branch.effective_bits,
            }
            for branch in residual.branches
        ],
    }
