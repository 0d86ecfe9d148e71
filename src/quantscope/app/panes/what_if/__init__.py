"""The What-if pane: controls on the left, what they do on the right, and how to keep it."""

from quantscope.app.panes.what_if.pane import show

__all__ = ["show"]
