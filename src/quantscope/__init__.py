"""A playground for post-training quantization: the library does the work."""

__version__ = "0.1.0"
