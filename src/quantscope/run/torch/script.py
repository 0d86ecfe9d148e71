"""Run a TorchScript archive operator by operator, so that its inner values can be seen.

A script module takes no hooks and gives nothing but its output. Its graph is followed as the reader
follows it, with values in hand: the same operators are called, so the same kernels run, and every
value goes by the name that the reader gave it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantscope.model.torch import first_line
from quantscope.model.torchscript import branch_of, computed, graph_of, is_packed

if TYPE_CHECKING:
    import torch
    from torch.jit import ScriptModule

_DEEPEST = 50
_ON_SHAPES = ("aten::size", "aten::dim")


class CannotFollowError(Exception):
    """Says why what comes next in the graph cannot be run from here."""


@dataclass
class Follower:
    """One run of `forward`; `watch` is told each value and its name as it is made."""

    watch: Callable[[str, Any], None]
    _names: set[str] = field(default_factory=set)

    def run(self, module: "ScriptModule", images: "torch.Tensor") -> Any:
        """Give the module's output, as far as following it leads there."""
        import torch

        graph: Any = graph_of(module)
        own, *inputs = graph.inputs()
        scope: dict[str, Any] = {own.debugName(): module}
        for value in inputs:
            name = value.debugName().partition(".")[0]
            self._names.add(name)
            scope[value.debugName()] = images
            self.watch(name, images)
        with torch.inference_mode():
            results = self._follow(graph, scope, "", _DEEPEST)
        return results[0] if len(results) == 1 else results

    def _follow(self, graph: Any, scope: dict[str, Any], path: str, depth: int) -> list[Any]:
        if depth == 0:
            raise CannotFollowError("its modules are nested too deeply")
        self._block(graph, scope, {next(iter(graph.inputs())).debugName(): path}, depth)
        return [scope[value.debugName()] for value in graph.outputs()]

    def _block(self, block: Any, scope: dict[str, Any], paths: dict[str, str], depth: int) -> None:
        for node in block.nodes():
            given = [value.debugName() for value in node.inputs()]
            made = [value.debugName() for value in node.outputs()]
            values = [scope[name] for name in given]
            kind = node.kind()
            if kind == "prim::Constant":
                scope[made[0]] = node.output().toIValue()
            elif kind == "prim::GetAttr":
                paths[made[0]] = ".".join(filter(None, (paths[given[0]], node.s("name"))))
                scope[made[0]] = getattr(values[0], node.s("name"))
            elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
                scope[made[0]] = values if kind == "prim::ListConstruct" else tuple(values)
            elif kind in ("prim::ListUnpack", "prim::TupleUnpack"):
                scope.update(zip(made, values[0], strict=True))
            elif kind == "prim::CallMethod" and node.s("name") == "forward":
                called = graph_of(values[0])
                names = [value.debugName() for value in called.inputs()]
                inner = dict(zip(names, values, strict=True))
                results = self._follow(called, inner, paths[given[0]], depth - 1)
                scope[made[0]] = results[0] if len(results) == 1 else tuple(results)
            elif kind == "prim::If":
                taken = branch_of(node, bool(values[0]))
                self._block(taken, scope, paths, depth)
                results = [scope[value.debugName()] for value in taken.outputs()]
                scope.update(zip(made, results, strict=True))
            elif made:
                scope[made[0]] = self._value(node, scope, paths)
            elif kind != "prim::Print":
                raise CannotFollowError(f"{kind} is not followed")

    def _value(self, node: Any, scope: Mapping[str, Any], paths: Mapping[str, str]) -> Any:
        """Run one operator: it gives a number, or a tensor under the name that the reader has."""
        import torch

        given = [value.debugName() for value in node.inputs()]
        kind, values = node.kind(), [scope[name] for name in given]
        if kind in _ON_SHAPES:
            return _call(node, values)
        if not any(isinstance(value, torch.Tensor) for value in values):
            known = computed(kind, values)
            if known is not None:
                return known.value
        path = next(iter(paths.values()))
        holder = next((paths[name] for name in given if is_packed(scope[name])), path)
        while holder.endswith("._packed_params"):
            holder = holder.removesuffix("._packed_params")
        name = ".".join(filter(None, (holder, node.output().debugName())))
        while name in self._names:
            name += "'"
        self._names.add(name)
        found = _call(node, values)
        self.watch(name, found)
        return found


def _call(node: Any, values: list[Any]) -> Any:
    kind = node.kind()
    if kind.startswith("prim::") and kind != "prim::CallMethod":
        raise CannotFollowError(f"{kind} is not followed")
    try:
        if kind == "prim::CallMethod":  # what tracing calls a module's second run
            return getattr(values[0], node.s("name"))(*values[1:])
        return _operator(node, values)
    except Exception as error:  # of any kind: the operators are the file's
        raise CannotFollowError(f"{kind} could not be run alone ({first_line(error)})") from None


def _operator(node: Any, values: list[Any]) -> Any:
    """Call the operator of the graph, through torch's dispatcher."""
    import torch

    schema = torch._C.parse_schema(node.schema())
    namespace, _, name = schema.name.partition("::")
    named = {
        argument.name: value
        for argument, value in zip(schema.arguments, values, strict=True)
        if argument.kwarg_only
    }
    packet = getattr(getattr(torch.ops, namespace), name)
    overload = getattr(packet, schema.overload_name or "default")
    return overload(*values[: len(values) - len(named)], **named)
