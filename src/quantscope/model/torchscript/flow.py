"""This module works out what a TorchScript graph computes beside its tensors.

That is little: checks of shapes, and which way a condition goes.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::floordiv": operator.floordiv,
    "aten::len": len,
    "aten::__getitem__": operator.getitem,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
}
_SHAPES = ("aten::size", "aten::dim")
_KNOWN_TYPES = (bool, int, float, str, list, tuple)


class Known(NamedTuple):
    """A value that is no tensor; None if it depends on what is not known here."""

    value: Any


def graph_of(module: Any) -> Any:
    """Give the module's graph; where it calls functions, they and its modules are put in place."""
    graph = module.graph
    calls = graph.findAllNodes("prim::CallFunction", True)
    return module.inlined_graph if calls else graph


def computed(kind: str, values: Sequence[Any]) -> Known | None:
    """Compute what an operator on numbers gives; None if it is one on tensors, a layer."""
    shape = getattr(values[0], "shape", None) if values else None
    if kind in _SHAPES and not isinstance(values[0], _KNOWN_TYPES):
        sizes = None if shape is None else list(shape)
        return Known(sizes if kind == "aten::size" or sizes is None else len(sizes))
    if kind not in _ON_NUMBERS or any(hasattr(value, "name") for value in values):
        return None
    is_identity = kind in ("aten::__is__", "aten::__isnot__")
    if not is_identity and not all(isinstance(value, _KNOWN_TYPES) for value in values):
        return Known(None)
    try:
        return Known(_ON_NUMBERS[kind](*values))
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return Known(None)


def branch_of(node: Any, condition: Any) -> Any:
    """Choose the way that a condition takes, or, if it is not known, one that does not raise."""
    yes, no = node.blocks()
    if isinstance(condition, bool):
        return yes if condition else no
    return no if _raises(yes) else yes


def _raises(block: Any) -> bool:
    return any(node.kind() == "prim::RaiseException" for node in block.nodes())
