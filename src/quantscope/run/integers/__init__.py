"""A quantized network in exact integers: traces, accumulators, saturation."""
