"""This module reads a program of torch.export, quantized with PT2E or float, as a `Network`.

The file's own JSON is read, after it was checked; nothing is loaded or executed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quantscope.model.assemble import Assembled, Draft, Parts, Reading, Step, ValueType, assemble
from quantscope.model.network import Network, OperandRole, Shape
from quantscope.model.relus import may_stand_for_relu
from quantscope.model.torch.file import Pt2File, open_pt2
from quantscope.model.torch.operators import attributes_from, op_type_of, program_layer_names
from quantscope.model.torch.pt2_graph import ProgramGraph, ProgramNode, Ref, program_graph
from quantscope.model.torch.pt2_quantizers import Quantizers, find_quantizers

# Their output has the integers of their input, so quantizers around them were made alike.
KEEPS_PARAMS = frozenset({"Concat", "Flatten", "MaxPool", "Pad", "Reshape", "Squeeze", "Transpose"})

_NEVER_NEGATIVE = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus"})
_KEEPS_SIGN = frozenset(
    {"Add", "AveragePool", "Cast", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "Identity",
     "MaxPool", "Mul", "Pad", "ReduceMean", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip


def first_drafts(drafts: Sequence[Draft]) -> Mapping[str, Sequence[Draft]]:
    """Give the first quantizer of each value, by its float or its integer name.

    Further quantizers of one value are listed with the layers that read them.
    """
    first: dict[str, Sequence[Draft]] = {}
    for draft in drafts:
        for name in filter(None, (draft.float_name, *draft.integer_names)):
            first.setdefault(name, (draft,))
    return first


def relu_drafts(
    steps: Sequence[Step], drafts: Sequence[Draft], *, ends_in_relu: Collection[str] = ()
) -> set[Draft]:
    """Find the drafts that may stand for a ReLU: they clip what the layer before can give.

    `ends_in_relu` are the values of steps with a ReLU of their own, such as `conv2d_relu`; their
    drafts do its work whether or not their parameters clip.
    """
    negative = _can_be_negative(steps, ends_in_relu)
    return {
        draft
        for draft in drafts
        if draft.value in ends_in_relu
        or (draft.value in negative and draft.clips_negatives and _takes_relu(steps, draft))
    }


def _takes_relu(steps: Sequence[Step], draft: Draft) -> bool:
    maker = next((step.op_type for step in steps if draft.value in step.outputs), "")
    readers = [step for step in steps if any(r.draft is draft for r in step.reads)]
    adds_bias = any(
        step.op_type == "Add" and any(r.role == "bias" for r in step.reads) for step in readers
    )
    return may_stand_for_relu(maker, [step.op_type for step in readers], adds_bias=adds_bias)


def _can_be_negative(steps: Sequence[Step], ends_in_relu: Collection[str]) -> set[str]:
    """Name the values that hold negatives for some input, as far as the operators tell."""
    never: set[str] = set(ends_in_relu)
    for step in steps:
        data = [reading for reading in step.reads if reading.role != "setting"]
        keeps = step.op_type in _KEEPS_SIGN and all(
            reading.origin in never or (reading.draft and reading.draft.clips_negatives)
            for reading in data
        )
        smallest = step.attributes.get("min_val", step.attributes.get("min"))
        clips = step.op_type == "Clip" and isinstance(smallest, int | float) and smallest >= 0
        if step.op_type in _NEVER_NEGATIVE or clips or (keeps and data):
            never.update(step.outputs)
    return {name for step in steps for name in step.outputs} - never


_DYNAMIC = ("choose_qparams", "per_token", "channel_group")
_SETTING_TYPES = ("int64", "bool")


def read_pt2(source: Pt2File | Path | str) -> Network:
    """Read a program; weights stay on disk until a tensor's `integers` are asked for."""
    file = source if isinstance(source, Pt2File) else open_pt2(Path(source))
    graph = program_graph(file)
    found = _Found(graph, find_quantizers(file, graph), _batch_symbol(graph))
    steps = tuple(_steps(found))
    drafts = tuple(found.quantizers.drafts)
    assembled = assemble(
        Parts(
            steps=steps,
            drafts=drafts,
            types={name: found.type(name) for name in graph.types},
            inputs=graph.inputs,
            outputs=tuple(_read(found, "", "", name) for name in graph.outputs),
            written=first_drafts(drafts),
            folding_relu=relu_drafts(steps, drafts),
        )
    )
    return Network(
        path=file.path,
        digest=file.digest,
        format="pt2e" if assembled.tensors else "float",
        opset=None,
        producer=f"torch {file.program['torch_version']}",
        inputs=assembled.inputs,
        outputs=assembled.outputs,
        layers=assembled.layers,
        tensors=assembled.tensors,
        batch=1 if found.batch else None,
        notes=tuple(dict.fromkeys(_notes(found, assembled))),
        metadata=file.metadata,
    )


@dataclass(frozen=True)
class _Found:
    """A program's graph and quantizers; `batch` is the symbol of a dynamic batch, if any."""

    graph: ProgramGraph
    quantizers: Quantizers
    batch: str | None

    def type(self, name: str) -> ValueType:
        kind = self.graph.types[name]
        sized: Shape = tuple(1 if dim == self.batch else dim for dim in kind.shape)
        return ValueType(kind.dtype, kind.shape, sized)


def _batch_symbol(graph: ProgramGraph) -> str | None:
    """Find the symbol of the first input's first dimension; None if that is a number."""
    shapes = [graph.types[name].shape for name in graph.inputs]
    first = shapes[0][0] if shapes and shapes[0] else None
    return first if isinstance(first, str) else None


def _steps(found: _Found) -> Iterator[Step]:
    """Make steps of operators on tensors; those on shapes, and checks, are no layers."""
    types = found.graph.types
    nodes = [
        node
        for node in found.graph.nodes
        if node.name not in found.quantizers.absorbed and any(o in types for o in node.outputs)
    ]
    for node, name in zip(nodes, program_layer_names(nodes), strict=True):
        domain, operator, *_ = node.op.split(".")
        op_type = op_type_of(operator.rstrip("_"), node.arguments)
        weight = node.arguments.get("weight")
        shape = types[weight].shape if isinstance(weight, Ref) else ()
        yield Step(
            name=name,
            node_name=node.name,
            op_type=op_type,
            file_op_type=node.op.partition(".")[2],
            domain=domain,
            reads=tuple(_reads(found, node, op_type)),
            outputs=tuple(output for output in node.outputs if output in types),
            attributes=attributes_from(
                op_type, node.arguments, weight_shape=[d for d in shape if isinstance(d, int)]
            ),
            keeps_params=op_type in KEEPS_PARAMS,
        )


def _reads(found: _Found, node: ProgramNode, op_type: str) -> Iterator[Reading]:
    for place, value in node.arguments.items():
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, Ref) and name in found.graph.types:
                yield _read(found, op_type, place, str(name))


def _read(found: _Found, op_type: str, place: str, name: str) -> Reading:
    draft = found.quantizers.of(name)
    kind = found.type(name)
    is_constant = name in found.graph.constants or bool(draft and draft.read_integers)
    dtype = draft.params.dtype if draft else kind.dtype
    is_setting = draft is None and dtype in _SETTING_TYPES
    return Reading(
        name=name,
        role=_constant_role(op_type, place, is_setting) if is_constant else "activation",
        origin=found.quantizers.origins.get(name, name),
        draft=draft,
        dtype=dtype,
        shape=kind.shape,
        sized=kind.sized,
    )


def _constant_role(op_type: str, place: str, is_setting: bool) -> OperandRole:
    if is_setting:
        return "setting"
    is_addend = op_type in ("Add", "Sub") and place == "other"
    is_addmms = op_type == "Gemm" and place == "self"  # addmm's first argument is what it adds to
    return "bias" if place == "bias" or is_addend or is_addmms else "weight"


def _notes(found: _Found, assembled: Assembled) -> Iterator[str]:
    if found.batch:
        yield "The batch is dynamic; MACs and bytes are for a batch of 1"
    names = {name: tensor.name for tensor in assembled.tensors for name in tensor.integer_names}
    narrow: dict[str, list[str]] = {}
    for draft, low, high in found.quantizers.narrow:
        limits = f"{low}..{high} of {draft.params.dtype}"
        narrow.setdefault(limits, []).append(names[draft.integer_names[0]])
    for limits, tensors in narrow.items():
        yield f"Only {limits} are used for {_listed(tensors)}"
    if any(word in layer.file_op_type for layer in assembled.layers for word in _DYNAMIC):
        yield (
            "Some quantizers choose their scales when the program runs (dynamic quantization); "
            "they are shown as layers"
        )
    yield from found.quantizers.notes


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
