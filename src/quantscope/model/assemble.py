"""This module puts together what a reader found in a file as layers and quantized tensors.

A reader says which operators are layers (`Step`), what they read (`Reading`), which tensors are
quantized (`Draft`) and of which type every value is. Names, roles, costs, the memory that is alive
and the order of the tensors follow from that here, for all formats alike.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quantscope.arithmetic import QuantParams
from quantscope.model.cost import Lifetime, count_macs, live_bytes
from quantscope.model.naming import make_unique
from quantscope.model.network import (
    Array,
    AttributeValue,
    Layer,
    Operand,
    OperandRole,
    QuantTensor,
    Role,
    Shape,
    bytes_of,
    dtype_bits,
    total,
)


@dataclass(eq=False)
class Draft:
    """A quantized tensor while it is being found; names are those of the file.

    Two drafts are never equal, however alike: a draft is told apart by being itself.
    """

    params: QuantParams
    integer_names: list[str]
    scale_name: str | None
    zero_point_name: str | None
    shape: Shape | None
    float_name: str | None = None
    dequantized_names: list[str] = field(default_factory=list)
    follows: "Draft | None" = None
    read_integers: Callable[[], Array] | None = None

    @property
    def value(self) -> str:
        """The value that it describes: what is quantized or, where that is not kept, the result."""
        return self.float_name or self.integer_names[0]

    @property
    def clips_negatives(self) -> bool:
        """Say whether no negative value can be represented."""
        return bool((self.params.representable_range[0] >= 0).all())


@dataclass(frozen=True)
class ValueType:
    """The type and shape of a value; `sized` has the batch that costs are counted for put in."""

    dtype: str
    shape: Shape | None
    sized: Shape | None


@dataclass(frozen=True)
class Reading:
    """One input of a layer: its name in the file and, behind quantizers, where it comes from.

    `run_time_dtype` is the type that it is quantized to by parameters found when the model runs.
    """

    name: str
    role: OperandRole
    origin: str
    draft: Draft | None
    dtype: str
    shape: Shape | None
    sized: Shape | None
    run_time_dtype: str | None = None


@dataclass(frozen=True)
class Step:
    """An operator that is a layer; an output that it leaves out has the name "".

    `keeps_params` says that it only moves integers, so that quantizers on both sides of it that
    have equal parameters were made alike and are to stay alike.
    """

    name: str
    node_name: str
    op_type: str
    file_op_type: str
    domain: str
    reads: tuple[Reading, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    subgraphs: tuple[str, ...] = ()
    keeps_params: bool = False
    default_attributes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Parts:
    """All that a reader found. `types` has at least what steps write and what the model is given.

    `written` has the drafts of such a value: its own tensor first, and any others that are to be
    listed with the layer that writes it. `folding_relu` are drafts that stand for a ReLU.
    `origins` lead from what a quantizer gives back to the value before all quantizers; a value
    that it does not name was made by the step that writes it, or by none.
    `counts_constant_outputs` says that an output of the model that is a constant takes memory, too.
    """

    steps: tuple[Step, ...]
    drafts: tuple[Draft, ...]
    types: Mapping[str, ValueType]
    inputs: tuple[str, ...]
    outputs: tuple[Reading, ...]
    written: Mapping[str, Sequence[Draft]]
    folding_relu: Collection[Draft]
    origins: Mapping[str, str] = field(default_factory=dict)
    counts_constant_outputs: bool = False

    def origin(self, draft: Draft) -> str:
        return self.origins.get(draft.value, draft.value)


@dataclass(frozen=True)
class Assembled:
    """The parts of a `Network` that follow from what was found."""

    layers: tuple[Layer, ...]
    tensors: tuple[QuantTensor, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]


def assemble(parts: Parts) -> Assembled:
    """Make the nouns of what was found; every draft becomes one tensor."""
    made_by = {
        name: index for index, step in enumerate(parts.steps) for name in step.outputs if name
    }
    tensors = _tensors(parts, made_by)
    live = live_bytes(_lifetimes(parts, made_by), len(parts.steps))

    def source_of(value: str) -> str | None:
        return parts.steps[made_by[value]].name if value in made_by else None

    def read(reading: Reading) -> Operand:
        return Operand(
            name=reading.name,
            role=reading.role,
            dtype=reading.dtype,
            shape=reading.shape,
            source=source_of(reading.origin),
            quant=tensors[reading.draft] if reading.draft else None,
            run_time_dtype=reading.run_time_dtype,
        )

    def write(name: str) -> Operand:
        kind = parts.types[name]
        draft = next(iter(parts.written.get(name, ())), None)
        return Operand(
            name=name,
            role="activation",
            dtype=draft.params.dtype if draft else kind.dtype,
            shape=kind.shape,
            source=source_of(name),
            quant=tensors[draft] if draft else None,
        )

    def layer(index: int, step: Step) -> Layer:
        outputs = [name for name in step.outputs if name]
        return Layer(
            name=step.name,
            op_type=step.op_type,
            file_op_type=step.file_op_type,
            domain=step.domain,
            node_name=step.node_name,
            inputs=tuple(read(reading) for reading in step.reads),
            outputs=tuple(write(name) for name in outputs),
            attributes=MappingProxyType(dict(step.attributes)),
            subgraphs=step.subgraphs,
            macs=count_macs(
                step.op_type,
                [reading.sized for reading in step.reads],
                parts.types[outputs[0]].sized if outputs else None,
                step.attributes,
            ),
            weight_bytes=total(
                [_kept_bytes(r.dtype, r.sized) for r in step.reads if r.role in ("weight", "bias")]
            ),
            live_bytes=live[index],
            default_attributes=step.default_attributes,
        )

    return Assembled(
        layers=tuple(layer(index, step) for index, step in enumerate(parts.steps)),
        tensors=_in_order(parts, tensors),
        inputs=tuple(write(name) for name in parts.inputs),
        outputs=tuple(read(reading) for reading in parts.outputs),
    )


def _in_order(parts: Parts, tensors: Mapping[Draft, QuantTensor]) -> tuple[QuantTensor, ...]:
    """List, layer by layer, what is read, then what is written; the rest as the file has it."""
    seen: dict[Draft, None] = {}
    for step in parts.steps:
        seen |= {reading.draft: None for reading in step.reads if reading.draft}
        for name in step.outputs:
            seen |= dict.fromkeys(parts.written.get(name, ()))
    return tuple(tensors[draft] for draft in seen | dict.fromkeys(parts.drafts))


def _tensors(parts: Parts, made_by: Mapping[str, int]) -> dict[Draft, QuantTensor]:
    """Make the tensor of every draft; `made_by` has the place of the step that writes a value."""
    users: dict[Draft, list[tuple[int, Reading]]] = {draft: [] for draft in parts.drafts}
    for index, step in enumerate(parts.steps):
        for reading in step.reads:
            if reading.draft is not None:
                users[reading.draft].append((index, reading))
    makers = [made_by.get(parts.origin(draft)) for draft in parts.drafts]
    roles = [_role(draft, users[draft]) for draft in parts.drafts]
    names = make_unique(
        _tensor_name(parts, draft, role, maker, users[draft])
        for draft, role, maker in zip(parts.drafts, roles, makers, strict=True)
    )
    named = dict(zip(parts.drafts, names, strict=True))
    groups = _sharing(parts, makers)
    tensors = {}
    for index, (draft, role, maker) in enumerate(zip(parts.drafts, roles, makers, strict=True)):
        is_activation = role == "activation"
        tensors[draft] = QuantTensor(
            name=names[index],
            role=role,
            params=draft.params,
            shape=draft.shape,
            producer=None if maker is None else parts.steps[maker].name,
            consumers=tuple(dict.fromkeys(parts.steps[user].name for user, _ in users[draft])),
            clips_negatives=is_activation and draft.clips_negatives,
            folded_relu=is_activation and maker is not None and draft in parts.folding_relu,
            shares_params_with=tuple(names[i] for i in sorted(groups[index]) if i != index),
            float_name=draft.float_name,
            integer_names=tuple(draft.integer_names),
            dequantized_names=tuple(draft.dequantized_names),
            scale_name=draft.scale_name,
            zero_point_name=draft.zero_point_name,
            follows=named[draft.follows] if draft.follows else None,
            read_integers=draft.read_integers,
        )
    return tensors


def _role(draft: Draft, users: list[tuple[int, Reading]]) -> Role:
    """Decide from all that read a tensor, and from whether it is stored, what it is."""
    if draft.read_integers is None and all(r.role == "activation" for _, r in users):
        return "activation"
    # A bias is one only if every reader takes it as one.
    return "bias" if users and all(r.role == "bias" for _, r in users) else "weight"


def _tensor_name(
    parts: Parts, draft: Draft, role: Role, maker: int | None, users: list[tuple[int, Reading]]
) -> str:
    """Name a constant after its first reader, an activation after its maker, else as the file."""
    if role != "activation" and users:
        return f"{parts.steps[users[0][0]].name}.{role}"
    origin = parts.origin(draft)
    if maker is None:
        return origin
    step = parts.steps[maker]
    place = step.outputs.index(origin)
    return f"{step.name}.out" + (f"{place + 1}" if place else "")


def _sharing(parts: Parts, makers: Sequence[int | None]) -> list[set[int]]:
    """Find, for each draft, the positions of all that share its parameters, its own among them.

    These have one stored scale, or a step between them that keeps parameters.
    """
    groups = [{index} for index in range(len(parts.drafts))]
    positions = {draft: index for index, draft in enumerate(parts.drafts)}

    def join(one: int, two: int) -> None:
        # The smaller group joins the larger, so that a position is moved only a few times.
        small, large = sorted((groups[one], groups[two]), key=len)
        if small is not large:
            large |= small
            for member in small:
                groups[member] = large

    by_scale: dict[str, int] = {}
    for index, (draft, maker) in enumerate(zip(parts.drafts, makers, strict=True)):
        if draft.scale_name:
            join(index, by_scale.setdefault(draft.scale_name, index))
        if maker is not None and parts.steps[maker].keeps_params:
            for reading in parts.steps[maker].reads:
                if reading.draft is not None and reading.draft.params == draft.params:
                    join(index, positions[reading.draft])
    return groups


def _lifetimes(parts: Parts, made_by: Mapping[str, int]) -> Iterator[Lifetime]:
    """Give when each activation is alive, and its bytes in the type in which it is kept.

    A float value that is only quantized takes no memory.
    """
    alive: dict[Draft | str, Lifetime] = {}
    end = len(parts.steps) - 1
    reads = [(index, r) for index, step in enumerate(parts.steps) for r in step.reads]
    kept = [(index, reading) for index, reading in reads if reading.role == "activation"]
    for reading in parts.outputs:
        if reading.role == "activation" or parts.counts_constant_outputs:
            kept.append((end, reading))
    # Readings come in the order of their steps, so that the last reader sets the end.
    for last, reading in kept:
        first = made_by.get(reading.origin, 0)
        alive[reading.draft or reading.origin] = Lifetime(
            first, last, _kept_bytes(reading.dtype, reading.sized)
        )
    for name, index in made_by.items():
        if name not in alive and not parts.written.get(name):  # written, and nobody reads it
            kind = parts.types[name]
            shape = kind.shape if kind.sized is None else kind.sized
            alive[name] = Lifetime(index, index, _kept_bytes(kind.dtype, shape))
    yield from alive.values()


def _kept_bytes(dtype: str, sized: Shape | None) -> int | None:
    """Count the bytes of a value; None where its type or a dimension is unknown."""
    bits = dtype_bits(dtype)
    return None if bits is None else bytes_of(sized, bits)
