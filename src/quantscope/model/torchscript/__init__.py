"""TorchScript archives made by FX quantization, read into a Network."""
