"""Exact integers: traces, accumulators and saturation of a quantized network."""
