"""This module turns edits, in their order, into what each tensor shall be. It writes no model.

Each edit acts on what those before it have left: a factor multiplies the scale that is there by
then, and of two edits of one thing the later one counts. `Off` keeps the parameters, so that `On`
finds them again, edits made in between included. Integer edits are done last, in their order, on
the integers that the final scale and zero-point give: they survive any other edit but `Off`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import QuantParams, minmax_params
from quantscope.edit.edits import (
    Edit,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    ScaleChannels,
    SetBits,
    SetChannel,
    SetInteger,
    SetIntegers,
    SetRange,
    SetScale,
    SetZeroPoint,
    ShiftBias,
)
from quantscope.edit.packed import unpack_integers
from quantscope.edit.parse import describe
from quantscope.edit.rescale import FindNeighbours, Neighbours, factors_of
from quantscope.edit.settings import (
    ROLES,
    checked,
    find_target,
    find_tensor,
    with_range,
    with_scale,
    with_zero_point,
)
from quantscope.edit.values import FloatValues, IntegerEdit
from quantscope.edit.widths import (
    MANY,
    check_range_rule,
    tensors_with_bits,
    with_rule,
    with_width,
)
from quantscope.edit.wiring import QdqGraph, Wiring
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Network, QuantTensor, edited_channel_axis
from quantscope.model.onnx import MOVES_INTEGERS

_QDQ = ("QuantizeLinear", "DequantizeLinear", "Constant")


def check_editable(wiring: Wiring, tensor: QuantTensor) -> QuantTensor:
    """Give the tensor back; raise if its parameters are not a QDQ pair's own to change."""
    graph = wiring.graph
    for name in tensor.integer_names:
        nodes = [graph.node(index) for index in graph.readers.get(name, ())]
        maker = graph.maker(name)
        for node in (*nodes, *([] if maker is None else [maker])):
            is_own_clip = node.op_type == "Clip" and node.output[0] in tensor.integer_names
            if node.op_type not in (*_QDQ, *MOVES_INTEGERS) and not is_own_clip:
                raise BadModelError(
                    f"{tensor.name} cannot be edited: {node.op_type} "
                    f"{node.name!r} computes with its integers and has no form in QDQ"
                )
    if not any(
        _has_source(wiring, name) for name in (tensor.name, *wiring.value_mates[tensor.name])
    ):
        raise BadModelError(
            f"{tensor.name} cannot be edited: its integers are looked up in a table that the file "
            "stores, and are not quantized where they are read"
        )
    for index in wiring.dequantizers[tensor.name]:
        if _reads_otherwise(graph, index, tensor):
            raise BadModelError(
                f"{tensor.name} cannot be edited: it is written with one scale or zero-point and "
                "read with another"
            )
    return tensor


def is_editable(wiring: Wiring, tensor: QuantTensor) -> bool:
    """Say whether its parameters are a QDQ pair's own to change."""
    try:
        check_editable(wiring, tensor)
    except BadModelError:
        return False
    return True


def _has_source(wiring: Wiring, name: str) -> bool:
    """Tell whether its integers are made by a quantizer, stored as such, or the model's input."""
    tensor, given = wiring.tensors[name], wiring.graph.inputs
    is_bias = name not in wiring.quantizers
    return (
        is_bias
        or bool(wiring.quantizers[name])
        or tensor.has_data
        or not given.isdisjoint(tensor.integer_names)
    )


def _reads_otherwise(graph: QdqGraph, index: int, tensor: QuantTensor) -> bool:
    """Tell whether a DequantizeLinear has another scale or zero-point than the tensor."""
    _, scale, zero_point = (*graph.node(index).input, "")[:3]
    scales, zeros = graph.array(scale), graph.array(zero_point) if zero_point else None
    params = tensor.params
    if scales is None:
        return False
    same_zeros = (
        not params.zero_point.any()
        if zeros is None
        else bool((zeros.astype(np.int64).ravel() == params.zero_point.ravel()).all())
    )
    return not (np.array_equal(scales.ravel(), params.scale.ravel()) and same_zeros)


def check_can_be_off(wiring: Wiring, tensor: QuantTensor) -> None:
    """Raise if the model gives or takes the tensor's integers, which would then not be there."""
    graph = wiring.graph
    check_editable(wiring, tensor)
    if any(name in graph.outputs for name in tensor.integer_names):
        raise BadModelError(
            f"{tensor.name} cannot be switched off: the model gives its integers as an output"
        )
    # Before IR version 4, initializers were listed among the inputs too.
    given = graph.inputs
    if any(name in given and name not in graph.initializers for name in tensor.integer_names):
        raise BadModelError(
            f"{tensor.name} cannot be switched off: it comes into the model as "
            f"{tensor.params.dtype}"
        )


def check_integer_edit(
    network: Network, tensor: QuantTensor, params: QuantParams, edit: IntegerEdit
) -> None:
    """Raise if the tensor stores no integers, or not this element, channel, value or bit.

    `params` are those that it has by then.
    """
    if not tensor.has_data or tensor.shape is None:
        raise BadConfigError(
            f"{tensor.name} has no stored integers to set: it is computed when the model runs"
        )
    shape = tuple(int(dim) for dim in tensor.shape if isinstance(dim, int))
    if isinstance(edit, SetChannel):
        axis = edited_channel_axis(network, tensor)
        if not 0 <= edit.channel < shape[axis]:
            raise BadConfigError(
                f"{tensor.name} has no channel {edit.channel}; give one from 0 to {shape[axis] - 1}"
            )
        size = int(np.prod(shape)) // shape[axis]
        values = edit.values if isinstance(edit.values, tuple) else (edit.values,)
        if isinstance(edit.values, tuple) and len(values) != size:
            raise BadConfigError(
                f"{len(values)} integers are given for channel {edit.channel} of {tensor.name}, "
                f"which has {size}"
            )
        for value in values:
            _check_fits(tensor, params, value)
        return
    if isinstance(edit, SetIntegers):
        try:
            found = unpack_integers(edit.packed, int(np.prod(shape)))
        except ValueError as error:
            raise BadConfigError(
                f"The integers for {tensor.name} cannot be read: {error}"
            ) from None
        for value in (int(found.min()), int(found.max())) if found.size else ():
            _check_fits(tensor, params, value)
        return
    in_range = (0 <= place < size for place, size in zip(edit.index, shape, strict=False))
    if len(edit.index) != len(shape) or not all(in_range):
        raise BadConfigError(
            f"{tensor.name} has no element {list(edit.index)}; its shape is {list(shape)}"
        )
    if isinstance(edit, SetInteger):
        _check_fits(tensor, params, edit.value)
    elif not 0 <= edit.bit < params.bits or not params.is_integer:
        raise BadConfigError(
            f"{params.type_text} of {tensor.name} has no bit {edit.bit}; "
            f"give one from 0 to {params.bits - 1}"
        )


def _check_fits(tensor: QuantTensor, params: QuantParams, value: int) -> None:
    if not params.qmin <= value <= params.qmax:
        raise BadConfigError(
            f"{value} does not fit {params.type_text} of {tensor.name}; "
            f"give an integer from {params.qmin} to {params.qmax}"
        )


@dataclass
class EditPlan:
    """The wishes for each tensor; only those that an edit reached are in it.

    `named` are the tensors that an edit names, the others moved along.
    """

    params: dict[str, QuantParams] = field(default_factory=dict)
    before_bits: dict[str, tuple[QuantParams, QuantParams]] = field(default_factory=dict)
    """The parameters that other bits were made of, and those that came of it.

    More bits again find the first ones, so that nothing is rounded twice.
    """
    off: set[str] = field(default_factory=set)
    integers: dict[str, list[IntegerEdit]] = field(default_factory=dict)
    shifts: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """The real values that are added to biases."""
    rescaled: list[tuple[Neighbours, NDArray[np.float64]]] = field(default_factory=list)
    """The layers whose channels between them are divided, with what they are divided by."""
    factors: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """The float values of constants are multiplied with these for that."""
    named: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    packs: bool = True
    """It says whether the kind of file has a type of 4 bits for stored integers."""

    def params_of(self, tensor: QuantTensor) -> QuantParams:
        return self.params.get(tensor.name, tensor.params)


def make_plan(
    wiring: Wiring,
    network: Network,
    edits: Sequence[Edit],
    floats: FloatValues,
    *,
    neighbours: FindNeighbours,
    packs: bool = True,
) -> EditPlan:
    """Add up the edits in their order; raise one line for the first that cannot be.

    `packs` says whether the kind of file has a type of 4 bits for stored integers, `neighbours`
    which layers can be rescaled.
    """
    plan = EditPlan(packs=packs)
    for edit in edits:
        before = dict(plan.params), set(plan.off)
        if isinstance(edit, ScaleChannels):
            _rescale(plan, wiring, edit, floats, neighbours(edit.first, edit.second))
            continue
        _add(plan, wiring, network, edit, floats)
        if not isinstance(edit, IntegerEdit | ShiftBias) and before == (plan.params, plan.off):
            plan.notes.append(f"Changes nothing, it is so already: {describe(edit)}")
    for name in sorted(plan.named & plan.off & {*plan.params, *plan.integers, *plan.shifts}):
        plan.notes.append(f"{name} is switched off, so its other edits have no effect")
    return plan


def _rescale(
    plan: EditPlan, wiring: Wiring, edit: ScaleChannels, floats: FloatValues, pair: Neighbours
) -> None:
    """Divide the channels between two layers; their weights get the ranges of what they become."""
    factors = np.asarray(edit.factors, np.float64)
    if factors.size != pair.channels:
        raise BadConfigError(
            f"{factors.size} factors are given for the channels from {edit.first} to "
            f"{edit.second}, which are {pair.channels}"
        )
    if not (np.isfinite(factors) & (factors > 0)).all():
        bad = factors[int(np.argmin(np.isfinite(factors) & (factors > 0)))]
        raise BadConfigError(
            f"A factor for the channels from {edit.first} to {edit.second} is {bad:g}; give "
            f"positive numbers"
        )
    for name in (pair.weight.name, pair.second_weight.name, pair.bias):
        if name in plan.integers:
            raise BadConfigError(
                f"Integers of {name} are set before its channels are rescaled, which rounds all "
                f"anew; rescale first"
            )
    plan.rescaled.append((pair, factors))
    plan.factors = factors_of(plan.rescaled)
    if pair.bias in plan.shifts:
        plan.shifts[pair.bias] = plan.shifts[pair.bias] / factors
    for tensor in (pair.weight, pair.second_weight):
        check_editable(wiring, tensor)
        real = floats.rescaled(tensor, plan.factors)
        now = plan.params_of(tensor)
        _move(plan, wiring, tensor, checked(tensor, lambda r=real, n=now: minmax_params(r, n)))


def _add(  # noqa: PLR0912 -- one for each kind
    plan: EditPlan, wiring: Wiring, network: Network, edit: Edit, floats: FloatValues
) -> None:
    match edit:
        case SetScale(name):
            tensor = _with_own_scale(wiring, network, name)
            params = with_scale(tensor, plan.params_of(tensor), edit)
            _move(plan, wiring, tensor, params)
        case SetZeroPoint(name):
            tensor = _with_own_scale(wiring, network, name)
            params = with_zero_point(tensor, plan.params_of(tensor), edit)
            _move(plan, wiring, tensor, params)
        case SetRange(name, lo, hi):
            tensor = _with_own_scale(wiring, network, name)
            params = with_range(tensor, plan.params_of(tensor), edit)
            _move(plan, wiring, tensor, params)
            _note_range(plan, tensor, params, lo, hi)
        case SetBits():
            _set_bits(plan, wiring, network, edit, floats)
        case ShiftBias(name, by):
            _shift_bias(plan, wiring, network, name, by)
        case SetInteger() | SetChannel() | SetIntegers() | FlipBit():
            tensor = check_editable(wiring, find_tensor(network, edit.tensor))
            check_integer_edit(network, tensor, plan.params_of(tensor), edit)
            plan.named.add(tensor.name)
            plan.integers.setdefault(tensor.name, []).append(edit)
        case Off(target):
            parts = find_target(network, target)
            plan.named.update(part.name for part in parts)
            _switch(plan, wiring, parts, off=True)
        case On(target):
            parts = find_target(network, target)
            _switch(plan, wiring, parts, off=False)
        case OffRole(role) | OnRole(role):
            if role not in ROLES:
                raise BadConfigError(f"No role is called {role!r}; there are: {', '.join(ROLES)}")
            parts = tuple(t for t in network.tensors if t.role in ROLES[role])
            if isinstance(edit, OffRole):
                parts = tuple(_that_can_be_off(plan, wiring, parts))
                plan.named.update(part.name for part in parts)
            _switch(plan, wiring, parts, off=isinstance(edit, OffRole))
        case ScaleChannels():
            raise AssertionError("done by `make_plan`")
        case _:
            assert_never(edit)


def _shift_bias(
    plan: EditPlan, wiring: Wiring, network: Network, name: str, by: tuple[float, ...]
) -> None:
    """Add to a bias that counts in steps of its layer's scales; others are refused."""
    # A bias whose scale is too small to be shown is no tensor, but it can be added to.
    tensor = name if name in wiring.derived else find_tensor(network, name).name
    site = next((site for site in wiring.bias_sites if site.name == tensor), None)
    if site is None:
        raise BadConfigError(
            f"{tensor} cannot be shifted: it is no bias that a layer adds in steps of its input's "
            f"scale times its weights'"
        )
    stored = wiring.graph.array(wiring.graph.node(site.dequantize).input[0])
    size = 0 if stored is None else stored.size
    if len(by) != size:
        raise BadConfigError(f"{len(by)} shifts are given for {tensor}, which has {size} elements")
    if not np.isfinite(by).all():
        raise BadConfigError(f"A shift of {tensor} is {by[int(np.argmin(np.isfinite(by)))]}")
    plan.named.add(tensor)
    plan.shifts[tensor] = plan.shifts.get(tensor, np.zeros(size)) + np.asarray(by, np.float64)


def _move(plan: EditPlan, wiring: Wiring, tensor: QuantTensor, params: QuantParams) -> None:
    """Give the tensor these parameters, and all that share them what they share."""
    plan.named.add(tensor.name)
    moved = {tensor.name: params}
    with_zero = set(wiring.zero_point_mates[tensor.name])
    for name in wiring.scale_mates[tensor.name]:
        mate = wiring.tensors[name]
        own = plan.params_of(mate)
        shape = own.scale.shape
        zero_point = params.zero_point.reshape(shape) if name in with_zero else None
        moved[name] = own.changed(scale=params.scale.reshape(shape), zero_point=zero_point)
    for name, new in moved.items():
        # What edits have brought back to the file's own is no change any more.
        if new == wiring.tensors[name].params:
            plan.params.pop(name, None)
        else:
            plan.params[name] = new


def _note_range(
    plan: EditPlan, tensor: QuantTensor, params: QuantParams, lo: float, hi: float
) -> None:
    """Note a range that became wider than asked for, since the zero-point had to stay."""
    low, high = (float(end.flat[0]) for end in params.representable_range)
    step = float(params.step.flat[0])
    if low < lo - step or high > hi + step:
        plan.notes.append(
            f"{tensor.name} has zero-point {params.zero_point.flat[0]} and keeps it, so the range "
            f"[{lo:g}, {hi:g}] became [{low:g}, {high:g}]"
        )


def _set_bits(
    plan: EditPlan, wiring: Wiring, network: Network, edit: SetBits, floats: FloatValues
) -> None:
    """Give tensors other bits, with all that share scale or numbers with them."""
    is_many = edit.target in MANY
    chosen = [t for t in tensors_with_bits(network, edit.target) if t.name not in wiring.derived]
    if not chosen:
        raise BadConfigError(
            f"{edit.target} has no bits to set: a bias has the 32 that its sum has"
        )
    check_range_rule(edit, chosen)
    moved: dict[str, QuantParams] = {}
    for tensor in chosen:
        try:
            check_editable(wiring, tensor)
            for name in (tensor.name, *wiring.scale_mates[tensor.name]):
                moved[name] = _at_bits(plan, wiring.tensors[name], edit.bits)
        except BadModelError as error:
            if not is_many:
                raise
            plan.notes.append(f"{tensor.name} keeps its bits: {error}")
            continue
        plan.named.add(tensor.name)
    for name, params in moved.items():
        own = wiring.tensors[name].params
        plan.params.pop(name, None)
        if params != own:
            plan.params[name] = params
    if edit.range != "keep":
        for tensor in chosen:
            if tensor.name in moved:
                params = with_rule(tensor, plan.params_of(tensor), edit.range, floats, plan.factors)
                _move(plan, wiring, tensor, params)


def _at_bits(plan: EditPlan, tensor: QuantTensor, bits: int) -> QuantParams:
    now = plan.params_of(tensor)
    first, made = plan.before_bits.get(tensor.name, (now, now))
    if made != now:  # another edit came between
        first = now
    found = with_width(tensor, first, bits, packs=plan.packs)
    plan.before_bits[tensor.name] = first, found
    return found


def _switch(plan: EditPlan, wiring: Wiring, parts: Sequence[QuantTensor], *, off: bool) -> None:
    """Switch tensors off or on, together with those that hold the same numbers."""
    for part in parts:
        group = (part.name, *wiring.value_mates[part.name])
        if off:
            for name in group:
                check_can_be_off(wiring, wiring.tensors[name])
            plan.off.update(group)
        else:
            plan.off.difference_update(group)


def _that_can_be_off(
    plan: EditPlan, wiring: Wiring, parts: Sequence[QuantTensor]
) -> Iterator[QuantTensor]:
    """Choose the tensors that can be switched off; note each that stays, with why."""
    for part in parts:
        try:
            for name in (part.name, *wiring.value_mates[part.name]):
                check_can_be_off(wiring, wiring.tensors[name])
        except BadModelError as error:
            plan.notes.append(f"{part.name} stays quantized: {error}")
        else:
            yield part


def _with_own_scale(wiring: Wiring, network: Network, name: str) -> QuantTensor:
    """Find a tensor whose scale is its own to set; a bias that follows others is refused."""
    tensor = check_editable(wiring, find_tensor(network, name))
    site = next((site for site in wiring.bias_sites if site.name == tensor.name), None)
    if site is not None:
        raise BadConfigError(
            f"{tensor.name} has no scale of its own: it counts in steps of {site.x} times "
            f"{site.w}; change one of those"
        )
    return tensor
