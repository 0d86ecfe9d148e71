"""The What-if pane: controls on the left, what they do on the right, and how to keep it."""

from quantscope.app.panes.what_if.answers import editor_of
from quantscope.app.panes.what_if.bench import TAB, Workbench
from quantscope.app.panes.what_if.pane import show

__all__ = [
    "TAB",
    "Workbench",
    "editor_of",
    "show",
]
