"""Explain the words of the page: one plain sentence for each term, and where to read more."""

from dataclasses import dataclass
from html import escape

_BOUNDARY = "01-boundary-operations.md"
_CONV = "02-qlinearconv.md"
_WHOLE = "04-architecture.md"


EXECUTIONS = {"reference": "as the file states it", "runtime": "as this CPU runs it"}
"""The names of the two executions, wherever they stand on the page."""


@dataclass(frozen=True)
class Word:
    """A term of the page and its explanation.

    `page` is a file of docs/quantization and a heading in it; empty where there is none.
    """

    name: str
    text: str
    page: str = ""


WORDS = {
    "float": Word("Float", "The network as it was trained, in 32-bit floating point."),
    "stand_in": Word(
        "Quantizers off",
        "The same network with every quantizer switched off, for want of the float original: its "
        "weights stay rounded.",
    ),
    "reference": Word(
        "As the file states it",
        "The quantized network computed exactly as its file states, with no fused kernels.",
        f"{_WHOLE}#from-qdq-to-integers",
    ),
    "runtime": Word(
        "As this CPU runs it",
        "The same file through the fused integer kernels that onnxruntime ships for this CPU.",
        f"{_WHOLE}#what-the-runtime-fuses",
    ),
    "gap": Word(
        "Kernel gap",
        "What is lost to the kernels that run the model, not to its quantization.",
        f"{_CONV}#when-kernels-saturate",
    ),
    "interval": Word(
        "95 % interval",
        "The range that the true value lies in, 19 times out of 20, given that only these images "
        "were seen. Differences are taken image by image.",
    ),
    "images": Word(
        "Images",
        "All accuracies are of these: CIFAR-10 test images, as many of each class, unless other "
        "images were given.",
    ),
    "measure": Word(
        "Measured",
        "What is counted of the outputs, one number for each sample; shown is their mean. With "
        "labels it is the accuracy, without them the agreement with the float model, or how far "
        "the outputs lie from it.",
    ),
    "colour": Word(
        "Colour by", "The number that gives each layer its colour, here and in the table."
    ),
    "scale": Word(
        "Scale",
        "The step between two neighbouring values: real = (integer − zero-point) × scale.",
        f"{_BOUNDARY}#the-two-operations",
    ),
    "zero_point": Word(
        "Zero-point",
        "The integer that stands for real zero.",
        f"{_BOUNDARY}#range-scale-and-zero-point",
    ),
    "bits": Word(
        "Bits",
        "How many of the type's bits the integers use: n bits tell 2 to the n steps apart. With "
        "other bits the range stays and the step follows.",
        f"{_BOUNDARY}#range-scale-and-zero-point",
    ),
    "range": Word(
        "Range",
        "The real values that the integers can stand for; what lies outside is clipped.",
        f"{_BOUNDARY}#range-scale-and-zero-point",
    ),
    "used": Word(
        "Used",
        "How much of the representable range the float values span.",
        f"{_BOUNDARY}#range-scale-and-zero-point",
    ),
    "dtype": Word(
        "Type", "The integer type in which the tensor is kept.", f"{_BOUNDARY}#int8-or-uint8"
    ),
    "per_channel": Word(
        "Per channel",
        "Each output channel has a scale of its own.",
        f"{_BOUNDARY}#per-channel",
    ),
    "sqnr": Word(
        "SQNR",
        "Signal to quantization noise in decibels: the float value against its error, with all "
        "that came before. 6 dB more is half the error.",
        f"{_BOUNDARY}#errors",
    ),
    "local_sqnr": Word(
        "Local SQNR",
        "The SQNR that this quantizer alone would leave, on an exact input.",
        f"{_BOUNDARY}#errors",
    ),
    "clipped": Word(
        "Clipped share",
        "How many of the float values lie outside the representable range.",
        f"{_BOUNDARY}#rounding-and-saturation-at-work",
    ),
    "rmse_steps": Word(
        "RMSE in steps",
        "The typical error, in steps of the quantizer; rounding alone gives 0.29.",
        f"{_BOUNDARY}#errors",
    ),
    "weight_range": Word("Weight range", "The largest weight, by its size, after quantization."),
    "sensitivity": Word(
        "Sensitivity",
        "How much the SQNR of the logits changes when this layer alone is not quantized.",
    ),
    "kernel": Word(
        "Kernel",
        "Whether this CPU executes the layer with integers or falls back to float.",
        f"{_WHOLE}#what-the-runtime-fuses",
    ),
    "int8_kernels": Word(
        "Int8 kernels",
        "Fused kernels for int8 activations too, which onnxruntime leaves out on x86 unless it is "
        "told to use them (session.qdqisint8allowed).",
        f"{_WHOLE}#what-the-runtime-fuses",
    ),
    "saturates": Word(
        "Saturates",
        "Products of uint8 and int8 are added in pairs in 16 bits, which can overflow, on x86 "
        "without VNNI.",
        f"{_CONV}#when-kernels-saturate",
    ),
    "macs": Word("MACs", "Multiply-accumulates for one image."),
    "weight_bytes": Word("Weights", "Bytes of the stored weights and biases."),
    "folded_relu": Word(
        "Folded ReLU",
        "The quantizer cannot represent negative values, so it does the ReLU's work.",
        f"{_CONV}#folded-relu",
    ),
    "inherited": Word(
        "Inherited", "Error that arrives through the layer's inputs, made by layers before."
    ),
    "weights": Word("Weights and bias", "Error from rounding this layer's weights and bias."),
    "rounding": Word(
        "Rounding",
        "Error from rounding this layer's output to the nearest step.",
        f"{_BOUNDARY}#rounding-and-saturation-at-work",
    ),
    "clipping": Word(
        "Clipping",
        "Error from output values outside the representable range.",
        f"{_BOUNDARY}#rounding-and-saturation-at-work",
    ),
    "framework": Word(
        "Framework",
        "onnxruntime quantizes any ONNX classifier; PyTorch's PT2E works on ResNet8's weights.",
    ),
    "calibration": Word(
        "Calibration",
        "How the range of an activation is found from what calibration images give: all of it "
        "(MinMax), a part of it (percentile), or where the histograms differ least (entropy).",
    ),
    "calibration_images": Word(
        "Calibration images", "How many training images the ranges are found with; no labels."
    ),
    "format": Word(
        "Format",
        "QDQ states quantization around float operators; QOperator has integer operators.",
        f"{_WHOLE}#from-qdq-to-integers",
    ),
    "symmetric": Word("Symmetric", "Zero-point in the middle: the range is the same both ways."),
    "reduce_range": Word(
        "7-bit weights",
        "Weights from −64 to 64: two products then always fit 16 bits, so no kernel saturates.",
        f"{_CONV}#when-kernels-saturate",
    ),
    "bits_lost": Word(
        "Bits lost",
        "How much finer the branch counts than the sum: log2(the sum's step / the branch's step).",
        f"{_WHOLE}#residual-connections-with-different-scales",
    ),
    "bits_left": Word(
        "Bits left", "What remains of the branch's bits once it is counted in the sum's steps."
    ),
    "branch_cost": Word(
        "Share of the sum's error",
        "How much of the sum's error came through this branch; a negative share takes error away.",
    ),
}


def word(key: str, text: str | None = None) -> str:
    """Write a term as HTML, explained on hover and focus; `text` None shows its name."""
    shown = WORDS[key].name if text is None else text
    return f'<span class="qs-word" data-word="{key}" tabindex="0">{escape(shown)}</span>'
