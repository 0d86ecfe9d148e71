"""Everything that executes a network: evaluation, capture, traces, what its kernels do.

Two executions, always named: reference (what the file states) and runtime (what ships).
"""

from quantscope.run.accumulators import Accumulators, LayerAccumulator, accumulators
from quantscope.run.capture import capture
from quantscope.run.captured import Capture, CapturedTensor
from quantscope.run.classifier import Classifier, open_classifier
from quantscope.run.compare import compare
from quantscope.run.compare_results import Comparison, TensorComparison
from quantscope.run.compare_with import SideBySide, compare_with
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
from quantscope.run.histogram_results import Histogram, Histograms
from quantscope.run.histograms import histograms, weight_histogram
from quantscope.run.integer_network import integer_network
from quantscope.run.kernels import KernelMap, LayerKernel, kernel_map
from quantscope.run.predict_kernels import SaturationPrediction, predict_saturation
from quantscope.run.sessions import Execution
from quantscope.run.suffix import SuffixRunner
from quantscope.run.trace import Trace, trace_value
from quantscope.run.whatif import DownstreamSqnr, Effect, WhatIf

__all__ = [
    "Accumulators",
    "Capture",
    "CapturedTensor",
    "ClassAccuracy",
    "ClassChange",
    "Classifier",
    "Comparison",
    "DownstreamSqnr",
    "Effect",
    "Evaluation",
    "Execution",
    "Histogram",
    "Histograms",
    "KernelGap",
    "KernelMap",
    "LayerAccumulator",
    "LayerKernel",
    "PairedDelta",
    "SaturationPrediction",
    "SideBySide",
    "SuffixRunner",
    "TensorComparison",
    "Trace",
    "WhatIf",
    "accumulators",
    "capture",
    "classify",
    "compare",
    "compare_with",
    "evaluate",
    "histograms",
    "integer_network",
    "kernel_gap",
    "kernel_map",
    "open_classifier",
    "paired",
    "predict_saturation",
    "trace_value",
    "weight_histogram",
]
