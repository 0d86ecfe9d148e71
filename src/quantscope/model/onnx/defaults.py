"""This module tells which attributes of a node are as its operator has them by default."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
import onnx
import onnx_ir as ir

from quantscope.model.network import AttributeValue
from quantscope.model.onnx.operators import DEFAULT_DOMAINS


def default_names(
    node: ir.Node, float_op_type: str, attributes: Mapping[str, AttributeValue], *, opset: int
) -> frozenset[str]:
    """Name the attributes whose value is the operator's default in this opset.

    An operator that onnx does not define is taken for the float one that it stands for.
    """
    is_onnx = node.domain in DEFAULT_DOMAINS
    defaults = _defaults(node.op_type if is_onnx else float_op_type, opset)
    return frozenset(
        name for name, value in attributes.items() if name in defaults and defaults[name] == value
    )


@cache
def _defaults(op_type: str, opset: int) -> Mapping[str, AttributeValue]:
    """Read an operator's defaults off its schema; none of an operator that has no schema."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return MappingProxyType({})
    found: dict[str, AttributeValue] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type == onnx.AttributeProto.UNDEFINED:
            continue
        value = onnx.helper.get_attribute_value(attribute.default_value)
        if isinstance(value, bytes):
            found[name] = value.decode()
        elif isinstance(value, float):
            found[name] = float(np.float32(value))  # as files store it
        elif isinstance(value, int | str):
            found[name] = value
        elif isinstance(value, list):
            found[name] = tuple(value)
    return MappingProxyType(found)
