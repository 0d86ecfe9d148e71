"""What both PyTorch readers found, put together as layers and quantized tensors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quantscope.model.cost import Lifetime, count_macs, live_bytes
from quantscope.model.drafts import Draft
from quantscope.model.naming import make_unique
from quantscope.model.network import (
    AttributeValue,
    Layer,
    Operand,
    QuantTensor,
    Role,
    bytes_of,
    dtype_bits,
    total,
)
from quantscope.model.onnx.layer_parts import Reading
from quantscope.model.onnx.signs import clips_negatives
from quantscope.model.onnx.tensors import Shape

_NEVER_NEGATIVE = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus"})
_KEEPS_SIGN = frozenset(
    {"Add", "AveragePool", "Cast", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "Identity",
     "MaxPool", "Mul", "Pad", "ReduceMean", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip
# Their output has the integers of their input, so quantizers around them were made alike.
_MOVES = frozenset({"Concat", "Flatten", "MaxPool", "Pad", "Reshape", "Squeeze", "Transpose"})


@dataclass(frozen=True)
class ValueType:
    """`sized` is the shape with the batch that costs are counted for."""

    dtype: str
    shape: Shape | None
    sized: Shape | None


@dataclass(frozen=True)
class Step:
    """An operator that is a layer. `with_relu`: it ends in a ReLU of its own, `conv2d_relu`."""

    name: str
    node_name: str
    op_type: str
    file_op_type: str
    domain: str
    reads: tuple[Reading, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    with_relu: bool = False


@dataclass(frozen=True)
class Parts:
    """Steps in order, quantized tensors as drafts, and the types of all values of the file."""

    steps: tuple[Step, ...]
    drafts: tuple[Draft, ...]
    types: Mapping[str, ValueType]
    inputs: tuple[str, ...]
    outputs: tuple[Reading, ...]


@dataclass(frozen=True)
class Assembled:
    layers: tuple[Layer, ...]
    tensors: tuple[QuantTensor, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]


def assemble(parts: Parts) -> Assembled:
    maker = {name: index for index, step in enumerate(parts.steps) for name in step.outputs}
    named = _named_drafts(parts.drafts)
    tensors = _tensors(parts, maker)
    live = live_bytes(_lifetimes(parts, maker, named), len(parts.steps))

    def source_of(value: str) -> str | None:
        return parts.steps[maker[value]].name if value in maker else None

    def read(reading: Reading) -> Operand:
        return Operand(
            name=reading.name,
            role=reading.role,
            dtype=reading.dtype,
            shape=reading.shape,
            source=source_of(reading.origin),
            quant=tensors[id(reading.draft)] if reading.draft else None,
        )

    def written(name: str) -> Operand:
        kind, draft = parts.types[name], named.get(name)
        return Operand(
            name=name,
            role="activation",
            dtype=draft.params.dtype if draft else kind.dtype,
            shape=kind.shape,
            source=source_of(name),
            quant=tensors[id(draft)] if draft else None,
        )

    layers = tuple(
        Layer(
            name=step.name,
            op_type=step.op_type,
            file_op_type=step.file_op_type,
            domain=step.domain,
            node_name=step.node_name,
            inputs=tuple(read(reading) for reading in step.reads),
            outputs=tuple(written(name) for name in step.outputs),
            attributes=MappingProxyType(dict(step.attributes)),
            subgraphs=(),
            macs=count_macs(
                step.op_type,
                [reading.sized for reading in step.reads],
                parts.types[step.outputs[0]].sized if step.outputs else None,
                step.attributes,
            ),
            weight_bytes=total([_bytes(r) for r in step.reads if r.role in ("weight", "bias")]),
            live_bytes=live[index],
        )
        for index, step in enumerate(parts.steps)
    )
    return Assembled(
        layers=layers,
        tensors=_in_order(layers, tensors),
        inputs=tuple(written(name) for name in parts.inputs),
        outputs=tuple(read(reading) for reading in parts.outputs),
    )


def _named_drafts(drafts: Sequence[Draft]) -> dict[str, Draft]:
    """The first quantizer of each value that is written, by its float or its integer name."""
    named: dict[str, Draft] = {}
    for draft in drafts:
        for name in filter(None, (draft.float_name, *draft.integer_names)):
            named.setdefault(name, draft)
    return named


def _in_order(
    layers: tuple[Layer, ...], tensors: Mapping[int, QuantTensor]
) -> tuple[QuantTensor, ...]:
    """Layer by layer what is read, then what is written; the rest as the file has it."""
    seen: dict[str, QuantTensor] = {}
    for layer in layers:
        for operand in (*layer.inputs, *layer.outputs):
            if operand.quant:
                seen[operand.quant.name] = operand.quant
    return tuple((seen | {tensor.name: tensor for tensor in tensors.values()}).values())


def _tensors(parts: Parts, maker: Mapping[str, int]) -> dict[int, QuantTensor]:
    users: dict[int, list[tuple[int, Reading]]] = {id(draft): [] for draft in parts.drafts}
    for index, step in enumerate(parts.steps):
        for reading in step.reads:
            if reading.draft is not None:
                users[id(reading.draft)].append((index, reading))
    makers = [maker.get(_origin(draft)) for draft in parts.drafts]
    roles = [_role(draft, users[id(draft)]) for draft in parts.drafts]
    names = make_unique(
        _tensor_name(parts, draft, role, made_by, users[id(draft)])
        for draft, role, made_by in zip(parts.drafts, roles, makers, strict=True)
    )
    named = dict(zip(map(id, parts.drafts), names, strict=True))
    shared = _shared(parts, makers, named)
    negative = _can_be_negative(parts)
    tensors = {}
    for draft, role, made_by in zip(parts.drafts, roles, makers, strict=True):
        clips = role == "activation" and clips_negatives(draft.params)
        producer = None if made_by is None else parts.steps[made_by]
        tensors[id(draft)] = QuantTensor(
            name=named[id(draft)],
            role=role,
            params=draft.params,
            shape=draft.shape,
            producer=producer.name if producer else None,
            consumers=tuple(dict.fromkeys(parts.steps[i].name for i, _ in users[id(draft)])),
            clips_negatives=clips,
            folded_relu=producer is not None
            and (producer.with_relu or (clips and _origin(draft) in negative)),
            shares_params_with=shared[id(draft)],
            float_name=draft.float_name,
            integer_names=tuple(draft.integer_names),
            dequantized_names=tuple(draft.dequantized_names),
            scale_name=draft.scale_name,
            zero_point_name=draft.zero_point_name,
            follows=named[id(draft.follows)] if draft.follows else None,
            read_integers=draft.read_integers,
        )
    return tensors


def _origin(draft: Draft) -> str:
    return draft.float_name or draft.integer_names[0]


def _role(draft: Draft, users: list[tuple[int, Reading]]) -> Role:
    if draft.read_integers is None and all(r.role == "activation" for _, r in users):
        return "activation"
    return "bias" if users and all(r.role == "bias" for _, r in users) else "weight"


def _tensor_name(
    parts: Parts,
    draft: Draft,
    role: Role,
    made_by: int | None,
    users: list[tuple[int, Reading]],
) -> str:
    if role != "activation" and users:
        return f"{parts.steps[users[0][0]].name}.{role}"
    if made_by is None:
        return _origin(draft)
    step = parts.steps[made_by]
    place = step.outputs.index(_origin(draft))
    return f"{step.name}.out" + (f"{place + 1}" if place else "")


def _shared(
    parts: Parts, makers: Sequence[int | None], named: Mapping[int, str]
) -> dict[int, tuple[str, ...]]:
    """Tensors with one stored scale, and those that a step only moves with equal parameters."""
    groups: dict[int, set[int]] = {id(draft): {id(draft)} for draft in parts.drafts}

    def join(one: Draft, two: Draft) -> None:
        both = groups[id(one)] | groups[id(two)]
        for member in both:
            groups[member] = both

    by_scale: dict[str, Draft] = {}
    for draft, made_by in zip(parts.drafts, makers, strict=True):
        if draft.scale_name:
            join(draft, by_scale.setdefault(draft.scale_name, draft))
        if made_by is not None and parts.steps[made_by].op_type in _MOVES:
            for reading in parts.steps[made_by].reads:
                if reading.draft is not None and reading.draft.params == draft.params:
                    join(draft, reading.draft)
    return {
        key: tuple(name for other, name in named.items() if other in group and other != key)
        for key, group in groups.items()
    }


def _can_be_negative(parts: Parts) -> set[str]:
    """Values that hold negatives for some input, as far as the operators tell."""
    never: set[str] = set()
    for step in parts.steps:
        data = [reading for reading in step.reads if reading.role != "setting"]
        keeps = step.op_type in _KEEPS_SIGN and all(
            reading.origin in never or (reading.draft and clips_negatives(reading.draft.params))
            for reading in data
        )
        smallest = step.attributes.get("min_val", step.attributes.get("min"))
        clips = step.op_type == "Clip" and isinstance(smallest, int | float) and smallest >= 0
        if step.op_type in _NEVER_NEGATIVE or step.with_relu or clips or (keeps and data):
            never.update(step.outputs)
    return {name for step in parts.steps for name in step.outputs} - never


def _bytes(reading: Reading) -> int | None:
    bits = dtype_bits(reading.dtype)
    return None if bits is None else bytes_of(reading.sized, bits)


def _lifetimes(
    parts: Parts, maker: Mapping[str, int], named: Mapping[str, Draft]
) -> Iterator[Lifetime]:
    """Activations in the type in which they are kept; a float that is only quantized is not."""
    last: dict[int | str, int] = {}
    size: dict[int | str, int | None] = {}
    first: dict[int | str, int] = {}
    end = len(parts.steps) - 1
    reads = [(index, r) for index, step in enumerate(parts.steps) for r in step.reads]
    for index, reading in (*reads, *((end, reading) for reading in parts.outputs)):
        if reading.role == "activation":
            key = id(reading.draft) if reading.draft else reading.origin
            last[key], size[key] = index, _bytes(reading)
            first[key] = maker.get(reading.origin, 0)
    for name, index in maker.items():
        if name not in last and name not in named:  # written, and nobody reads it
            kind = parts.types[name]
            bits = dtype_bits(kind.dtype)
            first[name] = last[name] = index
            size[name] = None if bits is None else bytes_of(kind.sized, bits)
    for key, final in last.items():
        yield Lifetime(first[key], final, size[key])
