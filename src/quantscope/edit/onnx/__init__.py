"""Edits written into ONNX graphs."""
