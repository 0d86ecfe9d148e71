"""The names of ONNX's domains, and of the operators that take integers and their scales."""

DEFAULT_DOMAINS = ("", "ai.onnx")  # two spellings of one domain
QDQ_OPS = frozenset({"QuantizeLinear", "DequantizeLinear"})
# Operators that move integers about without computing with them.
MOVES_INTEGERS = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
INTEGER_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""Products of integers without scales, and the float operators that they are part of."""
FLOAT_OPERATORS = {**INTEGER_PRODUCTS, "MatMulNBits": "MatMul", "GatherBlockQuantized": "Gather"}
"""The float operators of those that read integers in ways of their own."""
RUN_TIME_OPS = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
"""Operators that find the scale and zero-point of what they are given when they run."""
BLOCK_OPS = frozenset({"GatherBlockQuantized", "MatMulBnb4", "MatMulNBits"})
"""Operators on floats whose weights are packed integers, with a scale for each block of them."""
# Operators that take integers and their scales, of ONNX itself and of onnxruntime's own domain.
QOPERATOR_OPS = frozenset(
    {
        "ConvInteger",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
        "GatherBlockQuantized",
        "MatMulBnb4",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "MatMulNBits",
        "QAttention",
        "QEmbedLayerNormalization",
        "QGemm",
        "QLinearAdd",
        "QLinearAveragePool",
        "QLinearConcat",
        "QLinearConv",
        "QLinearGlobalAveragePool",
        "QLinearLeakyRelu",
        "QLinearMatMul",
        "QLinearMul",
        "QLinearReduceMean",
        "QLinearSigmoid",
        "QLinearSoftmax",
        "QLinearWhere",
        "QMoE",
        "QOrderedAttention",
        "QOrderedGelu",
        "QOrderedLayerNormalization",
        "QOrderedLongformerAttention",
        "QOrderedMatMul",
    }
)
UNKNOWN_OPS = {
    "MatMulBnb4": "its weight is 4-bit floating-point codes of a table, without scale steps",
    **dict.fromkeys(
        (
            *("QMoE", "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization"),
            *("QOrderedLongformerAttention", "QOrderedMatMul"),
        ),
        "its layout is not known here",
    ),
}
"""Operators on integers whose parameters are not read, and why."""
