"""Fill the rows of the two tables: layers on the left, all tensors in the Layers pane."""

from collections.abc import Iterator
from typing import Any

from quantscope.app.metrics import node_keys, output_of
from quantscope.app.panes.parts import share_text
from quantscope.app.place import Selection, select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.model import Dim, QuantTensor
from quantscope.plain_text import printable
from quantscope.report import batch_of, range_text, shape_text, spread_text, type_text

LAYER_COLUMNS = (
    {"label": "layer", "word": "", "right": False},
    {"label": "type", "word": "", "right": False},
)
TENSOR_COLUMNS = (
    {"label": "tensor", "word": "", "right": False},
    {"label": "shape", "word": "", "right": True},
    {"label": "type", "word": "dtype", "right": False},
    {"label": "scale", "word": "scale", "right": True},
    {"label": "zero-pt", "word": "zero_point", "right": True},
    {"label": "range", "word": "range", "right": True},
    {"label": "SQNR", "word": "sqnr", "right": True},
    {"label": "local", "word": "local_sqnr", "right": True},
    {"label": "clipped", "word": "clipped", "right": True},
    {"label": "used", "word": "used", "right": True},
)


def layer_rows(session: Session) -> list[dict[str, Any]]:
    network = session.opened.network
    rows = []
    for key, layer in node_keys(session).items():
        if layer is not None:
            cells = [printable(layer.name), type_text(layer, in_quantized=network.is_quantized)]
            rows.append(_row(key, select_layer(layer), cells, list(cells)))
        elif (tensor := output_of(session, key)) is not None:
            cells = [printable(tensor.name), "model input"]
            rows.append(_row(key, select_tensor(tensor), cells, list(cells)))
    return rows


def tensor_rows(session: Session) -> list[dict[str, Any]]:
    """List every quantized tensor along the network, and every layer that writes none."""
    network = session.opened.network
    batch = batch_of(network)
    seen: set[str] = set()
    rows = []
    for tensor in network.tensors:
        seen.update(name for name in (tensor.producer,) if name)
        rows.append(_tensor_row(session, tensor, batch))
    for layer in network.layers:
        if layer.name not in seen:
            shape = shape_text(layer.outputs[0].shape, batch=batch) if layer.outputs else ""
            dtype = layer.outputs[0].dtype if layer.outputs else ""
            cells = [printable(layer.name), shape, dtype, *[""] * 7]
            rows.append(_row(layer.name, select_layer(layer), cells, [*cells[:3], *[None] * 7]))
    return rows


def _tensor_row(session: Session, tensor: QuantTensor, batch: Dim) -> dict[str, Any]:
    params = tensor.params
    chosen = select_tensor(tensor)
    found = list(_found(session, tensor))
    cells = [
        printable(tensor.name),
        shape_text(tensor.shape, batch=batch if tensor.role == "activation" else None),
        params.type_text + ("" if params.is_per_tensor else f" × {params.scale.size}"),
        spread_text(params.scale, 3 if params.is_per_tensor else 2),
        spread_text(params.zero_point),
        range_text(tensor, digits=3),
        *(text for text, _ in found),
    ]
    low, high = params.representable_range
    sort = [
        *cells[:3],
        float(params.scale.max()),
        float(params.zero_point.max()),
        float(high.max() - low.min()),
        *(value for _, value in found),
    ]
    return _row(tensor.name, chosen, cells, sort)


def _found(session: Session, tensor: QuantTensor) -> Iterator[tuple[str, float | None]]:
    """Give text and sort value of SQNR, local SQNR, clipped and used share."""
    row = session.find_comparison(tensor.name)
    if row is None:
        yield from [("", None)] * 4
        return
    for value in (row.sqnr_db, row.local_sqnr_db):
        yield ("exact" if row.exact else "–", None) if value is None else (f"{value:.1f}", value)
    low, high = row.clipped_low_fraction, row.clipped_high_fraction
    yield ("–", None) if low is None or high is None else (share_text(low + high), low + high)
    used = row.used_share_of_range
    yield ("–", None) if used is None else (share_text(used, 0), used)


def _row(key: str, selection: Selection, cells: list[str], sort: list[Any]) -> dict[str, Any]:
    return {"key": key, **selection.to_dict(), "cells": cells, "sort": sort}
