"""Comparison of two ONNX models as one graph that both run in."""
