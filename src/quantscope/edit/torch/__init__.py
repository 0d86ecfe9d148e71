"""This room states PT2E programs for edits, and writes edits into them. It needs no torch."""
