"""The Diagnose pane: how good the model is, what stands out, and what can be done next.

`pane.py` lays it out, `account.py` draws what the loss is made of, `findings.py` shows any finding,
whatever its kind, and `actions.py` does what its buttons ask for.
"""

from quantscope.app.panes.diagnose.actions import TAB, Doctor
from quantscope.app.panes.diagnose.worst import worst_selection

__all__ = ["TAB", "Doctor", "worst_selection"]
