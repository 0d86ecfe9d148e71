"""Make what `quantscope inspect --json` prints; docs/inspect-json.md describes it."""

from dataclasses import replace
from typing import Any

import numpy as np

from quantscope.model import (
    SCHEMA_VERSION,
    Array,
    Layer,
    Network,
    QuantTensor,
    json_safe,
    recorded_facts,
)
from quantscope.report.layer_text import layer_tensors
from quantscope.report.raw_nodes import RawGraph, RawParams


def inspection(network: Network) -> dict[str, Any]:
    """Describe the whole network, with per-channel parameters summarized."""
    whole = network.to_dict()
    added = json_safe({"provenance": recorded_facts(network.metadata)})
    return {
        **whole,
        "provenance": added["provenance"],
        "not_finite": {**whole["not_finite"], **added["not_finite"]},
    }


def layer_inspection(network: Network, layer: Layer) -> dict[str, Any]:
    """Describe one layer: all channels' parameters, stored integers, dequantized values."""
    tensors = layer_tensors(layer)
    alone = replace(network, layers=(layer,), tensors=tensors).to_dict(full=True)
    data = json_safe({"tensors": [_data(tensor) for tensor in tensors]})
    not_finite = {**alone["not_finite"], **data["not_finite"]}
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "layer",
        "file": network.path.name,
        "digest": network.digest,
        "format": network.format,
        "layer": alone["layers"][0],
        "tensors": [
            {**entry, **stored}
            for entry, stored in zip(alone["tensors"], data["tensors"], strict=True)
        ],
        "not_finite": {
            # Here `layer` stands alone, and only paths into what is shown are kept.
            place.replace("layers[0]", "layer", 1): what
            for place, what in not_finite.items()
            if place.startswith(("layers[", "tensors["))
        },
    }


def node_inspection(graph: RawGraph) -> dict[str, Any]:
    """Describe every node as the file has it."""
    return json_safe(
        {
            "schema_version": SCHEMA_VERSION,
            "kind": "nodes",
            "file": graph.file.path.name,
            "digest": graph.file.digest,
            "opsets": dict(graph.file.opsets),
            "node_count": len(graph.nodes),
            "counts": dict(graph.counts),
            "nodes": [
                {
                    "name": node.name,
                    "op_type": node.op_type,
                    "domain": node.domain,
                    "inputs": list(node.inputs),
                    "outputs": list(node.outputs),
                    "attributes": dict(node.attributes),
                    "subgraphs": list(node.subgraphs),
                    "quantization": [_params(params) for params in node.params],
                }
                for node in graph.nodes
            ],
        }
    )


def _data(tensor: QuantTensor) -> dict[str, Any]:
    if not tensor.has_data:
        return {"integers": None, "values": None}
    return {
        "integers": _plain(tensor.integers(), whole=tensor.params.is_integer),
        "values": _plain(tensor.values()),
    }


def _params(params: RawParams) -> dict[str, Any]:
    return {
        "value": params.value,
        "scale_name": params.scale_name,
        "scale": None if params.scale is None else _plain(params.scale),
        "zero_point_name": params.zero_point_name or None,
        "zero_point": None if params.zero_point is None else _plain(params.zero_point, whole=True),
    }


def _plain(array: Array, *, whole: bool = False) -> Any:
    """Make lists of Python numbers, which the small types of ml_dtypes do not give."""
    return array.astype(np.int64 if whole else np.float64).tolist()
