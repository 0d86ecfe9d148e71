"""Models made from models: edits as values, recipes, one `Editor`. Nothing here executes a model.

How it is put together
- `edits.py` has the edits, `parse.py` their form for people and `edits_json.py` the one for files,
  `packed.py` that of many integers; `recipe.py` keeps a list of them.
- `editor.py` applies them: `plan.py` (with `settings.py` and, for bits, `widths.py`) decides what
  each tensor shall be, `outcome.py` (with `values.py` and `biases.py`) what that makes of it, on
  the wiring of a QDQ graph (`wiring.py`); `clips.py` knows ReLUs that a quantizer stands for,
  `rescale.py` the layers whose channels between them can be rescaled.
- `subject.py` is the protocol of a model under edits; `onnx/` and `torch/` write it. `applied.py`
  is what comes of it, `changes.py` says what changed.

How something is added
- An edit: a class in `edits.py` and its line in `plan.py`, `parse.py` and `edits_json.py`; if it
  makes a new kind of outcome, the two writers too.
"""

from quantscope.edit.applied import (
    Applied,
    Change,
    EditWarning,
    Preview,
    recorded_rescaling,
)
from quantscope.edit.editor import Editor, apply, open_editor
from quantscope.edit.edits import (
    RANGE_RULES,
    Edit,
    EditedRole,
    FlipBit,
    Off,
    OffRole,
    On,
    OnRole,
    RangeRule,
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
from quantscope.edit.edits_json import edit_from_dict, edit_to_dict
from quantscope.edit.packed import pack_integers, unpack_integers
from quantscope.edit.parse import describe, parse_bits, parse_off, parse_on, parse_range, parse_set
from quantscope.edit.recipe import Recipe, guided_recipes, replay
from quantscope.edit.rescale import Neighbours
from quantscope.edit.settings import ROLES, find_target, parts_of, stays_symmetric
from quantscope.edit.subject import open_subject
from quantscope.edit.values import TAKEN_AS_FLOAT
from quantscope.edit.widths import MANY
from quantscope.model import lift_to_qdq

__all__ = [
    "MANY",
    "RANGE_RULES",
    "ROLES",
    "TAKEN_AS_FLOAT",
    "Applied",
    "Change",
    "Edit",
    "EditWarning",
    "EditedRole",
    "Editor",
    "FlipBit",
    "Neighbours",
    "Off",
    "OffRole",
    "On",
    "OnRole",
    "Preview",
    "RangeRule",
    "Recipe",
    "ScaleChannels",
    "SetBits",
    "SetChannel",
    "SetInteger",
    "SetIntegers",
    "SetRange",
    "SetScale",
    "SetZeroPoint",
    "ShiftBias",
    "apply",
    "describe",
    "edit_from_dict",
    "edit_to_dict",
    "find_target",
    "guided_recipes",
    "lift_to_qdq",
    "open_editor",
    "open_subject",
    "pack_integers",
    "parse_bits",
    "parse_off",
    "parse_on",
    "parse_range",
    "parse_set",
    "parts_of",
    "recorded_rescaling",
    "replay",
    "stays_symmetric",
    "unpack_integers",
]
