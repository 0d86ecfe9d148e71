"""The values of chosen tensors for chosen samples."""
