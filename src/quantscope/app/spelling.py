"""Spell edits, and wishes for rows, as a person types them after a command."""

import shlex
from collections.abc import Sequence

from quantscope.data import PictureWishes, RowWishes
from quantscope.edit import (
    Edit,
    Off,
    OffRole,
    On,
    OnRole,
    SetBits,
    SetRange,
    SetScale,
    SetZeroPoint,
)


def wish_options(wishes: RowWishes, *, beside_channels: bool) -> list[str]:
    """Give the options for rows; `beside_channels`: the command's --channels are of tensors."""
    shapes = (
        f"{name}{'=' if name else ''}{'x'.join(map(str, shape))}"
        for name, shape in wishes.shapes.items()
    )
    found = [f"--shape {shlex.quote(text)}" for text in shapes]
    pictures: PictureWishes = wishes.pictures
    if pictures.size:
        found.append(f"--size {pictures.size[0]}x{pictures.size[1]}")
    for option, numbers in (("mean", pictures.mean), ("std", pictures.std)):
        if numbers is not None:
            found.append(f"--{option}={','.join(map(repr, numbers))}")
    if pictures.scale is not None:
        found.append(f"--scale {pictures.scale!r}")
    if pictures.layout:
        found.append(f"--layout {pictures.layout}")
    if pictures.channels:
        option = "picture-channels" if beside_channels else "channels"
        found.append(f"--{option} {pictures.channels}")
    return found + ([f"--seed {wishes.seed}"] if wishes.seed else [])


_ORDER = ("--set", "--range", "--bits", "--off", "--on")
"""The order in which the command applies its options, whatever their order in the line."""


def edit_options(edits: Sequence[Edit]) -> str | None:
    """Write edits as options; None if there is no option for one, or their order would differ."""
    found = [_edit_option(edit) for edit in edits]
    said = [one for one in found if one is not None]
    places = [_ORDER.index(option) for option, _ in said]
    if not edits or len(said) < len(found) or places != sorted(places):
        return None
    return " ".join(f"{option}={shlex.quote(text)}" for option, text in said)


def _edit_option(edit: Edit) -> tuple[str, str] | None:  # noqa: PLR0911 -- one for each kind
    match edit:
        case SetScale(tensor, None, float() | int() as factor):
            return "--set", f"{tensor}.scale=x{float(factor)!r}"
        case SetScale(tensor, float() | int() as scale, None):
            return "--set", f"{tensor}.scale={float(scale)!r}"
        case SetScale(tensor, tuple() as scales, None) if len(scales) > 1:
            return "--set", f"{tensor}.scale={','.join(repr(float(one)) for one in scales)}"
        case SetZeroPoint(tensor, int() as point):
            return "--set", f"{tensor}.zero_point={point}"
        case SetRange(tensor, low, high):
            return "--range", f"{tensor}={float(low)!r},{float(high)!r}"
        case SetBits(target, width, "keep") if not target.startswith("all "):
            return "--bits", f"{target}={width}"
        case OffRole(role):
            return "--off", role
        case OnRole(role):
            return "--on", role
        case Off(target) if target not in ("weights", "activations"):
            return "--off", target
        case On(target) if target not in ("weights", "activations"):
            return "--on", target
    return None
