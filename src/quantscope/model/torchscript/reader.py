"""This module reads a TorchScript archive of FX quantization as a `Network`; torch is needed.

torch loads the checked archive, which unpacks its weights; its graph is read, not run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantscope.arithmetic import QuantParams
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model.assemble import Draft, Parts, Reading, Step, ValueType, assemble
from quantscope.model.network import AttributeValue, Network, Shape
from quantscope.model.torch import (
    KEEPS_PARAMS,
    ModuleOp,
    attributes_from,
    first_drafts,
    module_layer_names,
    op_type_of,
    relu_drafts,
)
from quantscope.model.torchscript.code import branch_of, computed, graph_of
from quantscope.model.torchscript.file import TorchScriptFile, open_torchscript
from quantscope.model.torchscript.loading import load_torchscript
from quantscope.model.torchscript.shapes import shape_after, weighted_shape
from quantscope.model.torchscript.weights import Unpacked, is_packed, quantized_constant, unpack

if TYPE_CHECKING:
    from torch.jit import ScriptModule

# c10's numbers of the quantized types, as graphs have them.
_DTYPES = {12: "int8", 13: "uint8", 14: "int32"}
# What these give on quantized tensors is fixed, whatever they are given.
_FIXED = {"sigmoid": (1 / 256, 0), "hardsigmoid": (1 / 256, 0), "tanh": (2 / 256, 128)}
_DEEPEST = 50  # modules within modules; following them recurses


def read_torchscript(source: TorchScriptFile | Path | str) -> Network:
    """Read an archive; its weights are in memory, unpacked from those that torch packed."""
    file = source if isinstance(source, TorchScriptFile) else open_torchscript(Path(source))
    return network_of(file, load_torchscript(file))


def network_of(file: TorchScriptFile, module: "ScriptModule") -> Network:
    """Read the network in a module that was loaded from this file."""
    walk = _Walk(file)
    try:
        outputs = walk.enter(module)
    except BadConfigError as error:
        raise BadModelError(f"{file.path.name}: {error}") from None
    names = module_layer_names([op.title for op in walk.operators])
    steps = tuple(op.step(name) for op, name in zip(walk.operators, names, strict=True))
    ends_in_relu = {op.output for op in walk.operators if op.with_relu}
    assembled = assemble(
        Parts(
            steps=steps,
            drafts=tuple(walk.drafts),
            types=walk.types,
            inputs=tuple(walk.inputs),
            outputs=tuple(walk.read(v, "activation") for v in outputs if isinstance(v, _Tensor)),
            written=first_drafts(walk.drafts),
            folding_relu=relu_drafts(steps, walk.drafts, ends_in_relu=ends_in_relu),
        )
    )
    return Network(
        path=file.path,
        digest=file.digest,
        format="torchscript" if assembled.tensors else "float",
        opset=None,
        producer="torch.jit",
        inputs=assembled.inputs,
        outputs=assembled.outputs,
        layers=assembled.layers,
        tensors=assembled.tensors,
        batch=1,
        notes=tuple(dict.fromkeys((*_notes(file), *walk.notes))),
        metadata=file.metadata,
    )


def _notes(file: TorchScriptFile) -> Iterator[str]:
    if file.traced_shape:
        yield "The batch is dynamic; MACs and bytes are for a batch of 1"
    else:
        yield "The archive does not state its input's shape, so shapes and costs are not known"
    yield "A TorchScript archive can be inspected and evaluated, not edited"


@dataclass(frozen=True)
class _Tensor:
    """A tensor that flows: `draft` if it holds integers, `dequantized` if it did until lately."""

    name: str
    shape: Shape | None
    draft: Draft | None = None
    dequantized: Draft | None = None
    origin: str = ""


@dataclass(frozen=True)
class _Constant:
    """A tensor of the file, quantized or not."""

    name: str
    tensor: Any
    draft: Draft | None = None


@dataclass(frozen=True)
class _Operator:
    """A layer without its name. `with_relu` says that it ends in a ReLU, as `conv2d_relu`."""

    title: ModuleOp
    node_name: str
    op_type: str
    file_op_type: str
    domain: str
    reads: tuple[Reading, ...]
    output: str
    attributes: Mapping[str, AttributeValue]
    with_relu: bool

    def step(self, name: str) -> Step:
        return Step(
            name=name,
            node_name=self.node_name,
            op_type=self.op_type,
            file_op_type=self.file_op_type,
            domain=self.domain,
            reads=self.reads,
            outputs=(self.output,),
            attributes=self.attributes,
            keeps_params=self.op_type in KEEPS_PARAMS,
        )


@dataclass
class _Walk:
    """A walk along `forward` through the modules, so that every operator knows whose it is."""

    file: TorchScriptFile
    operators: list[_Operator] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    types: dict[str, ValueType] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def enter(self, module: "ScriptModule") -> list[Any]:
        """Follow the whole module; give its outputs. The batch is taken as dynamic."""
        graph: Any = graph_of(module)
        own, *inputs = graph.inputs()
        traced = self.file.traced_shape
        scope: dict[str, Any] = {own.debugName(): module}
        for place, value in enumerate(inputs):
            name = value.debugName().partition(".")[0]
            shape: Shape | None = ("N", *traced[1:]) if traced and place == 0 else None
            scope[value.debugName()] = self._flowing(name, shape, "float32")
            self.inputs.append(name)
        return self._follow(graph, scope, "", _DEEPEST)

    def _follow(self, graph: Any, scope: dict[str, Any], path: str, depth: int) -> list[Any]:
        """Follow one module's graph; `scope` has the values of its names, `path` is its place."""
        if depth == 0:
            raise BadModelError(f"{self.file.path.name}: its modules are nested too deeply")
        self._block(graph, scope, {next(iter(graph.inputs())).debugName(): path}, depth)
        return [scope.get(value.debugName()) for value in graph.outputs()]

    def _block(self, block: Any, scope: dict[str, Any], paths: dict[str, str], depth: int) -> None:
        """Follow a block node by node; `paths` has the modules' places, the graph's own first."""
        path = next(iter(paths.values()))
        for node in block.nodes():
            given = [value.debugName() for value in node.inputs()]
            made = [value.debugName() for value in node.outputs()]
            values = [scope.get(name) for name in given]
            kind = node.kind()
            if kind == "prim::Constant":
                scope[made[0]] = node.output().toIValue()
            elif kind == "prim::GetAttr":
                paths[made[0]] = ".".join(filter(None, (paths[given[0]], node.s("name"))))
                scope[made[0]] = self._attribute(values[0], node.s("name"), paths[made[0]])
            elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
                scope[made[0]] = values
            elif kind in ("prim::ListUnpack", "prim::TupleUnpack"):
                unpacked = values[0] if isinstance(values[0], list | tuple) else [None] * len(made)
                scope.update(zip(made, unpacked, strict=True))
            elif kind == "prim::CallMethod" and node.s("name") == "forward":
                called = graph_of(values[0])
                names = [value.debugName() for value in called.inputs()]
                inner = dict(zip(names, values, strict=True))
                results = self._follow(called, inner, paths[given[0]], depth - 1)
                scope[made[0]] = results[0] if len(results) == 1 else results
            elif kind == "prim::If":
                taken = branch_of(node, values[0])
                self._block(taken, scope, paths, depth)
                results = [scope.get(value.debugName()) for value in taken.outputs()]
                scope.update(zip(made, results, strict=True))
            elif kind in ("prim::RaiseException", "prim::Print"):
                continue
            elif made:
                arguments = dict(zip(_argument_names(node), values, strict=True))
                known = computed(kind, values)
                # A layer is called after the module that holds its packed weights.
                holder = next((paths[name] for name in given if is_packed(scope.get(name))), path)
                while holder.endswith("._packed_params"):
                    holder = holder.removesuffix("._packed_params")
                scope[made[0]] = (
                    self._operator(node, arguments, holder) if known is None else known.value
                )

    def _attribute(self, holder: Any, name: str, path: str) -> Any:
        import torch

        found = getattr(holder, name)
        return _Constant(path, found.detach()) if isinstance(found, torch.Tensor) else found

    def _operator(self, node: Any, arguments: Mapping[str, Any], path: str) -> Any:
        """Add an operator on tensors: a quantizer, or else a layer; give what it makes."""
        domain, _, operator = node.kind().partition("::")
        name = self._unique(".".join(filter(None, (path, node.output().debugName()))))
        if operator == "quantize_per_tensor":
            return self._quantize(arguments, name)
        if operator == "dequantize" and len(arguments) == 1:
            (value,) = arguments.values()
            return self._dequantize(value, name)
        if operator in ("quantize_per_channel", "dequantize") or domain == "prim":
            self.notes.append(f"{node.kind()} is shown as a layer and not looked into")
        plain = operator.removesuffix("_relu").rstrip("_")
        data = list(_tensors_in(arguments.values()))
        held = next((value for value in arguments.values() if is_packed(value)), None)
        reads = [self.read(value, _role(plain, place)) for place, value in enumerate(data)]
        shapes = [reading.shape for reading in reads]
        attributes: Mapping[str, AttributeValue]
        if held is None:
            op_type = op_type_of(plain, arguments)
            attributes = attributes_from(op_type, _without_qparams(arguments))
            shape = shape_after(plain, shapes, arguments)
        else:
            packed = unpack(plain, held)
            op_type, attributes = packed.op_type, packed.attributes
            reads += self._weights(packed, name)
            shape = weighted_shape(shapes[0], op_type, packed.weight.shape, attributes)
        output = self._flowing(name, shape, "float32")
        params = self._output_params(domain, operator, arguments, data)
        if params is not None:
            follows = next((v.draft for v in data if v.draft and v.draft.params == params), None)
            moved = follows if domain == "aten" else None
            output = self._integers(name, shape, params, follows=moved)
        self.operators.append(
            _Operator(
                title=ModuleOp(path, operator.strip("_"), held is not None),
                node_name=name,
                op_type=op_type,
                file_op_type=operator,
                domain=domain,
                reads=tuple(reads),
                output=name,
                attributes=attributes,
                with_relu=operator.endswith("_relu"),
            )
        )
        return output

    def _unique(self, name: str) -> str:
        """Make a name unique: a module that is called twice makes its values twice."""
        while name in self.types:
            name += "'"
        return name

    def _flowing(self, name: str, shape: Shape | None, dtype: str) -> _Tensor:
        sized = None if shape is None else tuple(1 if dim == "N" else dim for dim in shape)
        self.types[name] = ValueType(dtype, shape, sized)
        return _Tensor(name, shape, origin=name)

    def _integers(
        self, name: str, shape: Shape | None, params: QuantParams, *, follows: Draft | None = None
    ) -> _Tensor:
        draft = Draft(params, [name], None, None, shape, follows=follows)
        self.drafts.append(draft)
        self._flowing(name, shape, params.dtype)
        return _Tensor(name, shape, draft, origin=name)

    def _quantize(self, arguments: Mapping[str, Any], name: str) -> Any:
        value, scale, zero_point, dtype = arguments.values()
        kind = _DTYPES.get(dtype, "uint8")
        is_constant = isinstance(value, _Constant)
        params = QuantParams(_number(scale), _number(zero_point), kind)
        draft = Draft(
            params=params,
            integer_names=[name],
            scale_name=scale.name if isinstance(scale, _Constant) else None,
            zero_point_name=zero_point.name if isinstance(zero_point, _Constant) else None,
            shape=tuple(value.tensor.shape) if is_constant else value.shape,
            float_name=value.name if is_constant else value.origin,
            read_integers=quantized_constant(value.tensor, params) if is_constant else None,
        )
        self.drafts.append(draft)
        if is_constant:
            return _Constant(name, value.tensor, draft)
        self._flowing(name, value.shape, kind)
        return _Tensor(name, value.shape, draft, origin=value.origin)

    def _dequantize(self, value: Any, name: str) -> Any:
        if not isinstance(value, _Tensor) or value.draft is None:
            return value
        value.draft.dequantized_names.append(name)
        self._flowing(name, value.shape, "float32")
        return _Tensor(name, value.shape, dequantized=value.draft, origin=value.origin)

    def _weights(self, packed: Unpacked, name: str) -> Iterator[Reading]:
        shape: Shape = tuple(packed.weight.shape)
        draft = Draft(
            params=packed.params,
            integer_names=[f"{name}.weight"],
            scale_name=None,
            zero_point_name=None,
            shape=shape,
            read_integers=packed.integers,
        )
        self.drafts.append(draft)
        yield self.read(_Constant(f"{name}.weight", packed.weight, draft), "weight")
        if packed.bias is not None:
            yield self.read(_Constant(f"{name}.bias", packed.bias), "bias")

    def _output_params(
        self, domain: str, operator: str, arguments: Mapping[str, Any], data: Sequence[Any]
    ) -> QuantParams | None:
        """Find the output's parameters: stated, always the same, or those of the input.

        They are None for an operator that gives no integers, or computes its scale when it runs.
        """
        quantized = [v.draft for v in data if isinstance(v, _Tensor) and v.draft]
        if domain == "quantized":
            values = list(arguments.values())
            # Scale and zero-point come last; True is an int, so types are compared exactly.
            pair = [v for v in values if type(v) in (int, float)][-2:]
            if len(pair) == 2 and isinstance(pair[0], float):
                kind = quantized[0].params.dtype if quantized else "uint8"
                return QuantParams(pair[0], pair[1], kind)
            self.notes.append(f"quantized::{operator} computes its scale when it runs")
            return None
        if not quantized:
            return None
        if operator in _FIXED:
            return QuantParams(*_FIXED[operator], quantized[0].params.dtype)
        return quantized[0].params

    def read(self, value: Any, role: Any) -> Reading:
        if isinstance(value, _Tensor):
            draft = value.draft or value.dequantized
            kind = self.types[value.name]
            dtype = draft.params.dtype if draft else kind.dtype
            return Reading(
                value.name, "activation", value.origin, draft, dtype, kind.shape, kind.sized
            )
        shape: Shape = tuple(value.tensor.shape)
        dtype = value.draft.params.dtype if value.draft else str(value.tensor.dtype)[6:]
        return Reading(value.name, role, value.name, value.draft, dtype, shape, shape)


def _argument_names(node: Any) -> list[str]:
    import torch

    if node.kind().startswith("prim::"):
        return [str(place) for place, _ in enumerate(node.inputs())]
    return [argument.name for argument in torch._C.parse_schema(node.schema()).arguments]


def _tensors_in(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, _Tensor | _Constant):
            yield value
        elif isinstance(value, list):
            yield from _tensors_in(value)


def _role(operator: str, place: int) -> str:
    return "bias" if operator in ("add", "sub") and place else "weight"


def _without_qparams(arguments: Mapping[str, Any]) -> dict[str, Any]:
    hidden = (
        "scale",
        "zero_point",
        "output_scale",
        "output_zero_point",
        "op_scale",
        "op_zero_point",
    )
    return {name: value for name, value in arguments.items() if name not in hidden}


def _number(value: Any) -> Any:
    return value.tensor.numpy().reshape(()) if isinstance(value, _Constant) else value
