"""This module tells where a quantizer that clips below 0 may stand for a ReLU.

A zero-point at the end of its type cuts negatives off, but that alone is no sign of a ReLU: SiLU's
smallest value, -0.28, vanishes below a coarse step. Quantizers remove a ReLU that directly follows
a sum of products or an addition, so only there is one to be supposed without a float model.
"""

from collections.abc import Collection

_TAKES_A_RELU = frozenset(
    {
        *("Add", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "FusedConv"),
        *("FusedGemm", "FusedMatMul", "Gemm", "InstanceNormalization", "Linear", "MatMul"),
    }
)
# What one of these reads did not come out of a ReLU: nobody puts one function behind another.
_FUNCTIONS = frozenset(
    {
        *(
            "Celu",
            "Clip",
            "Elu",
            "Erf",
            "FastGelu",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "LeakyRelu",
        ),
        *("Mish", "PRelu", "QuickGelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish"),
        *("Tanh", "ThresholdedRelu"),
    }
)


def may_stand_for_relu(maker: str, readers: Collection[str], *, adds_bias: bool = False) -> bool:
    """Tell whether a quantizer that clips below 0 behind a `maker` may have replaced a ReLU.

    `readers` are the operators that read its result; `adds_bias` says that one of them adds a
    constant. All are named as the float operators that they stand for.
    """
    is_before_bias = maker in ("MatMul", "FusedMatMul") and adds_bias
    return maker in _TAKES_A_RELU and not is_before_bias and _FUNCTIONS.isdisjoint(readers)
