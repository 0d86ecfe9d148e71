"""Capture: the values of chosen tensors for chosen samples."""
