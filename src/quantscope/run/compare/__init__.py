"""Comparison: a float and a quantized network on the same samples, tensor by tensor."""
