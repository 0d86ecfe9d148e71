"""Everything that executes a network: evaluation, capture, traces, what its kernels do.

Two executions, always named: reference (what the file states) and runtime (what ships).
"""

from quantscope.model import Execution
from quantscope.run.capture.capture import capture
from quantscope.run.capture.captured import Capture, CapturedTensor
from quantscope.run.compare.compare import compare
from quantscope.run.compare.results import Comparison, TensorComparison
from quantscope.run.compare.side_by_side import SideBySide, compare_with
from quantscope.run.evaluate import (
    ClassAccuracy,
    ClassChange,
    Evaluation,
    PairedDelta,
    classify,
    evaluate,
    paired,
)
from quantscope.run.gap import KernelGap, kernel_gap, kernel_map
from quantscope.run.histograms.histograms import histograms, weight_histogram
from quantscope.run.histograms.results import Histogram, Histograms
from quantscope.run.integers.accumulators import Accumulators, LayerAccumulator, accumulators
from quantscope.run.integers.network import integer_network
from quantscope.run.integers.saturation import SaturationPrediction, predict_saturation
from quantscope.run.integers.trace import Trace, trace_value
from quantscope.run.kernels import KernelMap, LayerKernel
from quantscope.run.onnx.suffix.runner import SuffixRunner
from quantscope.run.runnable import Runnable, open_runnable
from quantscope.run.whatif.whatif import DownstreamSqnr, Effect, WhatIf

__all__ = [
    "Accumulators",
    "Capture",
    "CapturedTensor",
    "ClassAccuracy",
    "ClassChange",
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
    "Runnable",
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
    "open_runnable",
    "paired",
    "predict_saturation",
    "trace_value",
    "weight_histogram",
]
