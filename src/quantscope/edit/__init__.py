"""This room makes models from models; it executes none, and changes none in place.

- `edits.py` has the changes as values, `edits_json.py`, `parse.py` and `describe.py` their forms.
- `editor.py` goes from edits to a model: `plan.py` says what each tensor shall be, `outcome.py`
  finds parameters and integers, `subject.py` writes them, with one implementation a framework.
- `recipe.py` keeps a list of edits as a file that replays.

A new edit is a dataclass in `edits.py`, a name in `edits_json.py`, and a case in `plan.py` and
`describe.py`.
"""

from quantscope.edit.applied import Applied, Change, EditWarning, Preview
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
from quantscope.edit.parse import describe, parse_off, parse_on, parse_range, parse_set
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
