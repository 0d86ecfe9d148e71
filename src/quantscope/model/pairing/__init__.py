"""Which float tensor each quantized one stands for; found by structure, not by names."""
