"""Find values of a program that are written into after they were made, perhaps by other names.

A program is run node by node and looked at by names. Where an operator writes through a view, one
name has several values, and which of them is meant no name tells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.fx import Node

# Composite operators, which need not declare that they may return what they are given; these don't.
_FRESH = frozenset(
    f"aten.{name}"
    for name in (
        "adaptive_avg_pool2d", "batch_norm", "conv1d", "conv2d", "conv3d", "layer_norm", "linear",
        "matmul", "max_pool2d", "pad",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Writes:
    """The names of a program's values that operators write into.

    `touched` share memory with something that an operator writes into. `changing` share it with a
    value that is read again after it was written into under another name.
    """

    touched: frozenset[str] = frozenset()
    changing: frozenset[str] = frozenset()


def why_unseen(model: str) -> str:
    """Say why a changing value cannot be looked at."""
    return f"{model} writes into it under another name too (a view, a slice): it has several values"


def writes_of(nodes: "Sequence[Node]") -> Writes:
    """Find what a program writes into; what only may share memory counts as if it did."""
    writers = [(at, read) for at, node in enumerate(nodes) for read in written_by(node)]
    if not writers:
        return Writes()
    shared = _sharing(nodes)
    place = {node.name: at for at, node in enumerate(nodes)}
    touched: set[str] = set()
    changing: set[str] = set()
    for at, written in writers:
        names = shared[written.name]
        touched |= names.keys()
        for node in names.values():
            is_older = place.get(node.name, -1) < at
            # The output node has no place: it reads last.
            if is_older and any(place.get(user.name, len(nodes)) > at for user in node.users):
                changing |= names.keys()
    return Writes(frozenset(touched), frozenset(changing))


def written_by(node: "Node") -> "Iterator[Node]":
    """Give the values that the operator writes into."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None and schema.is_mutable:
        yield from _declared(node, only_written=True)


def _declared(node: "Node", *, only_written: bool = False) -> "Iterator[Node]":
    """Give the values that the operator says it may return, or write into."""
    for at, each in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        alias = each.alias_info
        if alias is not None and (alias.is_write or not only_written):
            yield from _nodes_in(
                node.args[at] if at < len(node.args) else node.kwargs.get(each.name)
            )


def _sharing(nodes: "Sequence[Node]") -> "dict[str, dict[str, Node]]":
    """Group the values that may have the same memory: for each name all of them, itself too."""
    found: dict[str, dict[str, Node]] = {}
    for node in nodes:
        found[node.name] = {node.name: node}
        for read in node.all_input_nodes:
            found.setdefault(read.name, {read.name: read})
        for read in _may_be_returned(node):
            one, other = found[node.name], found[read.name]
            one |= other
            found |= dict.fromkeys(other, one)
    return found


def _may_be_returned(node: "Node") -> "Iterator[Node]":
    """Give the values that the operator may return as they are, or a view of."""
    from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel
    from torch._ops import OpOverload

    target = node.target
    if not isinstance(target, OpOverload):  # an element of a list, mostly
        yield from node.all_input_nodes
    elif any(each.alias_info is not None for each in target._schema.returns):
        yield from _declared(node)
    elif str(target.overloadpacket) not in _FRESH:
        name = target.name()  # type: ignore[no-untyped-call]
        if has_kernel(name, "CompositeImplicitAutograd"):
            yield from node.all_input_nodes


def _nodes_in(given: object) -> "Iterator[Node]":
    from torch.fx import Node

    if isinstance(given, Node):
        yield given
    elif isinstance(given, list | tuple):
        for each in given:
            yield from _nodes_in(each)
