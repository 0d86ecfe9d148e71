"""ONNX files: looked at before anything trusts them, and read into a Network."""
