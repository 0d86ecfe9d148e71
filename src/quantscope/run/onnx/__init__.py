"""ONNX models executed by onnxruntime."""
