"""The edits that a page has in force, as plain values; what they look like is `panes/what_if`'s.

How it is put together
- `history.py` has the list itself, `Edits`, and the way back and forth through it; `address.py`
  writes it into the page's address, so that each page has edits of its own, also when it is loaded
  again.
- `gestures.py` makes the next list of a slider's move, a field or a switch.
- `edited_file.py` writes the edited model to a file when a pane asks for it.

How a gesture is added
- A function in `gestures.py` from the edits and the tensor to the edits after it, which keeps the
  list short, and a case in `edits_after` if a widget sends it as a step.
"""

from quantscope.app.editing.address import edits_from_address, edits_to_address
from quantscope.app.editing.edited_file import EditedFile
from quantscope.app.editing.gestures import (
    channel_scales,
    edits_after,
    factor_of,
    reset,
    set_channel,
    set_factor,
    set_range,
    set_scale,
    set_zero_point,
    switch,
    switch_role,
)
from quantscope.app.editing.history import Edits, History, history_of, keep_history

__all__ = [
    "EditedFile",
    "Edits",
    "History",
    "channel_scales",
    "edits_after",
    "edits_from_address",
    "edits_to_address",
    "factor_of",
    "history_of",
    "keep_history",
    "reset",
    "set_channel",
    "set_factor",
    "set_range",
    "set_scale",
    "set_zero_point",
    "switch",
    "switch_role",
]
