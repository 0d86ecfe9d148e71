"""Sensitivity: which layers the score of a quantized network hangs on."""
