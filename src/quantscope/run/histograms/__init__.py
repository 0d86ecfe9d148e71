"""Histograms: how the values of a tensor are spread, float beside quantized."""
