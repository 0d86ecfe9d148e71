"""The `Runnable`s of PyTorch programs, archives and weights. Needs the `torch` extra."""
