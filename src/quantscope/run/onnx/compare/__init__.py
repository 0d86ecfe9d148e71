"""The comparison as one ONNX graph."""
