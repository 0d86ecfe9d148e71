"""Edits written into PT2E programs."""
