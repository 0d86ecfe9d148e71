"""Everything that executes a network: evaluation now, capture and comparison later.

Two executions, always named: reference (what the file states) and runtime (what ships).
"""

from quantscope.run.classifier import Classifier, open_classifier
from quantscope.run.evaluate import (
    ClassAccuracy,
    ClassChange,
    Evaluation,
    PairedDelta,
    classify,
    evaluate,
    paired,
)
from quantscope.run.gap import KernelGap, kernel_gap
from quantscope.run.kernels import KernelMap, LayerKernel, kernel_map
from quantscope.run.sessions import Execution

__all__ = [
    "ClassAccuracy",
    "ClassChange",
    "Classifier",
    "Evaluation",
    "Execution",
    "KernelGap",
    "KernelMap",
    "LayerKernel",
    "PairedDelta",
    "classify",
    "evaluate",
    "kernel_gap",
    "kernel_map",
    "open_classifier",
    "paired",
]
