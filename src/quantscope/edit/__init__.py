"""Models made from models; nothing here executes one, and none is changed in place."""

from quantscope.edit.applied import Applied, Change, EditWarning
from quantscope.edit.apply import Editor, apply
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
from quantscope.edit.lift import lift_to_qdq

__all__ = [
    "Applied",
    "Change",
    "Edit",
    "EditWarning",
    "Editor",
    "FlipBit",
    "Off",
    "OffRole",
    "On",
    "OnRole",
    "SetChannel",
    "SetInteger",
    "SetRange",
    "SetScale",
    "SetZeroPoint",
    "apply",
    "describe",
    "lift_to_qdq",
]
