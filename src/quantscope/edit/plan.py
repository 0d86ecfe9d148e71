"""This module turns edits, in their order, into what each tensor shall be. It writes no model.

Each edit acts on what those before it have left: a factor multiplies the scale that is there by
then, and of two edits of one thing the later one counts. `Off` keeps the parameters, so that `On`
finds them again, edits made in between included. Integer edits are done last, in their order, on
the integers that the final scale and zero-point give: they survive any other edit but `Off`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from quantscope.arithmetic.params import QuantParams
from quantscope.edit.checks import check_can_be_off, check_editable, check_integer_edit
from quantscope.edit.describe import describe
from quantscope.edit.edits import (
    Edit,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    SetChannel,
    SetInteger,
    SetRange,
    SetScale,
    SetZeroPoint,
)
from quantscope.edit.settings import (
    ROLES,
    find_target,
    find_tensor,
    with_range,
    with_scale,
    with_zero_point,
)
from quantscope.edit.values import IntegerEdit
from quantscope.edit.wiring import Wiring
from quantscope.errors import BadConfigError, BadModelError
from quantscope.model import Network, QuantTensor


@dataclass
class Plan:
    """The wishes for each tensor; only those that an edit reached are in it.

    `named` are the tensors that an edit names, the others moved along.
    """

    params: dict[str, QuantParams] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    integers: dict[str, list[IntegerEdit]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def params_of(self, tensor: QuantTensor) -> QuantParams:
        return self.params.get(tensor.name, tensor.params)


def make_plan(wiring: Wiring, network: Network, edits: Sequence[Edit]) -> Plan:
    """Add up the edits in their order; raise one line for the first that cannot be."""
    plan = Plan()
    for edit in edits:
        before = dict(plan.params), set(plan.off)
        _add(plan, wiring, network, edit)
        if not isinstance(edit, IntegerEdit) and before == (plan.params, plan.off):
            plan.notes.append(f"Changes nothing, it is so already: {describe(edit)}")
    for name in sorted(plan.named & plan.off & {*plan.params, *plan.integers}):
        plan.notes.append(f"{name} is switched off, so its other edits have no effect")
    return plan


def _add(plan: Plan, wiring: Wiring, network: Network, edit: Edit) -> None:
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
        case SetInteger() | SetChannel() | FlipBit():
            tensor = check_editable(wiring, find_tensor(network, edit.tensor))
            check_integer_edit(network, tensor, edit)
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
        case _:
            assert_never(edit)


def _move(plan: Plan, wiring: Wiring, tensor: QuantTensor, params: QuantParams) -> None:
    """Give the tensor these parameters, and all that share them what they share."""
    plan.named.add(tensor.name)
    moved = {tensor.name: params}
    with_zero = set(wiring.zero_point_mates[tensor.name])
    for name in wiring.scale_mates[tensor.name]:
        mate = wiring.tensors[name]
        own = plan.params_of(mate)
        moved[name] = QuantParams(
            params.scale.reshape(own.scale.shape),
            params.zero_point.reshape(own.scale.shape) if name in with_zero else own.zero_point,
            own.dtype,
            axis=own.axis,
            block_size=own.block_size,
        )
    for name, new in moved.items():
        # What edits have brought back to the file's own is no change any more.
        if new == wiring.tensors[name].params:
            plan.params.pop(name, None)
        else:
            plan.params[name] = new


def _note_range(plan: Plan, tensor: QuantTensor, params: QuantParams, lo: float, hi: float) -> None:
    """Note a range that became wider than asked for, since the zero-point had to stay."""
    low, high = (float(end.flat[0]) for end in params.representable_range)
    step = float(params.step.flat[0])
    if low < lo - step or high > hi + step:
        plan.notes.append(
            f"{tensor.name} has zero-point {params.zero_point.flat[0]} and keeps it, so the range "
            f"[{lo:g}, {hi:g}] became [{low:g}, {high:g}]"
        )


def _switch(plan: Plan, wiring: Wiring, parts: Sequence[QuantTensor], *, off: bool) -> None:
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
    plan: Plan, wiring: Wiring, parts: Sequence[QuantTensor]
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
