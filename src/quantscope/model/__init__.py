"""What a network is: model files read into one `Network` of layers and quantized tensors.

Nothing here executes a model, and nothing here changes one.
"""

from quantscope.model.onnx_file import OnnxFile, classifier_input, ends_in_softmax, load_onnx

__all__ = ["OnnxFile", "classifier_input", "ends_in_softmax", "load_onnx"]
