"""The effect of edits."""
