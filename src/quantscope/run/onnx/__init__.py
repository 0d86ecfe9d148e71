"""The `Runnable` of ONNX models, executed by onnxruntime."""
