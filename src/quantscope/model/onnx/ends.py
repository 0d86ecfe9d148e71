"""Find the tensors that use fewer integers than their type has, and which ones these are."""

import re

import numpy as np
import onnx_ir as ir

from quantscope.arithmetic import limits
from quantscope.errors import BadConfigError
from quantscope.model.assemble import Draft
from quantscope.model.network import Array
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.onnx.quant_params import QuantizedValues, padded_inputs

ENDS_KEY = "quantscope.ends"
"""The key under which a node that reads stored integers states the ends that are in use."""


def take_clip(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> bool:
    """Take a Clip right behind a quantizer for the ends of its integers; say whether it is that."""
    source, lowest, highest = padded_inputs(node, 3)[:3]
    draft, output = found.by_integer.get(source), output_names(node)[0]
    if draft is None or draft.follows is not None or draft.float_name is None:
        return False
    if not draft.params.is_integer or draft.params.ends is not None:
        return False
    readers = [other for other in graph.nodes if source in input_names(other)]
    if len(readers) > 1 or draft.integer_names != [source]:
        return False
    given = [graph.array(name) if name else None for name in (lowest, highest)]
    if any(name and end is None for name, end in zip((lowest, highest), given, strict=True)):
        return False
    ends = limits(draft.params.dtype)
    low, high = (
        usual if end is None else int(end.reshape(()))
        for usual, end in zip(ends, given, strict=True)
    )
    if not _take_ends(draft, (low, high)):
        return False
    draft.integer_names.append(output)
    found.by_integer[output] = draft
    found.origins[output] = found.origins.get(source, source)
    return True


def take_stated_ends(draft: Draft, node: ir.Node) -> None:
    """Give stored integers the ends that the node which reads them states, where they keep them."""
    stated = _stated_ends(node)
    if stated is not None and draft.read_integers is not None:
        _take_ends(draft, stated, draft.read_integers())


def _take_ends(draft: Draft, ends: tuple[int, int], integers: Array | None = None) -> bool:
    """Give a draft its ends; say no where stored integers or the zero-point lie outside of them."""
    if integers is not None:
        wide = integers.astype(np.int32)
        if wide.size and (wide.min() < ends[0] or wide.max() > ends[1]):
            return False
    try:
        draft.params = draft.params.changed(ends=ends)
    except BadConfigError:
        return False
    return True


def _stated_ends(node: ir.Node) -> tuple[int, int] | None:
    """Read the ends that an edit stated of stored integers; None for anything else."""
    low, comma, high = node.metadata_props.get(ENDS_KEY, "").partition(",")
    whole = re.compile(r"-?\d{1,6}")
    if not (comma and whole.fullmatch(low) and whole.fullmatch(high)):
        return None
    return int(low), int(high)
