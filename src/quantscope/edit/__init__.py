"""Models made from models; nothing here executes one, and none is changed in place."""

from quantscope.edit.applied import Applied, Change, EditWarning, Preview
from quantscope.edit.describe import describe
from quantscope.edit.editor import Editor, apply
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
from quantscope.edit.edits_json import edit_from_dict, edit_to_dict
from quantscope.edit.parse import parse_off, parse_on, parse_range, parse_set
from quantscope.edit.recipe import Recipe, guided_recipes, replay
from quantscope.model import lift_to_qdq

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
    "Preview",
    "Recipe",
    "SetChannel",
    "SetInteger",
    "SetRange",
    "SetScale",
    "SetZeroPoint",
    "apply",
    "describe",
    "edit_from_dict",
    "edit_to_dict",
    "guided_recipes",
    "lift_to_qdq",
    "parse_off",
    "parse_on",
    "parse_range",
    "parse_set",
    "replay",
]
