"""This room states ONNX models for edits, and writes edits into ONNX graphs."""
