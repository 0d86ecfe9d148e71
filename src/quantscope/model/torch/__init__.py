"""Programs of torch.export: checked without torch, and read into a Network."""
