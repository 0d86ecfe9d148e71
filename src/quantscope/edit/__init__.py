"""Models made from models; nothing here executes one, and none is changed in place."""

from quantscope.edit.applied import Applied, Change, EditWarning
from quantscope.edit.apply import Editor
from quantscope.edit.describe import describe
from quantscope.edit.editors import AnyApplied, AnyEditor, apply, open_editor
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
from quantscope.edit.onnx.lift import lift_to_qdq
from quantscope.edit.parse import parse_off, parse_on, parse_range, parse_set
from quantscope.edit.recipe import Recipe, guided_recipes, replay
from quantscope.edit.torch.apply import AppliedProgram, ProgramEditor

__all__ = [
    "AnyApplied",
    "AnyEditor",
    "Applied",
    "AppliedProgram",
    "Change",
    "Edit",
    "EditWarning",
    "Editor",
    "FlipBit",
    "Off",
    "OffRole",
    "On",
    "OnRole",
    "ProgramEditor",
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
    "open_editor",
    "parse_off",
    "parse_on",
    "parse_range",
    "parse_set",
    "replay",
]
