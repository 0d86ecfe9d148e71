"""PyTorch programs executed. Needs the torch extra."""
