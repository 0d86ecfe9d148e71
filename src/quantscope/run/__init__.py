"""Everything that executes a network: evaluation, capture, comparison, what-if, traces.

How it is put together
- `runnable.py` has the protocol: a `Runnable` is a model in one named execution, reference (what
  the file states) or runtime (what ships). `batches.py` runs batches side by side, in their
  order.
- `edited_values.py` reads inner values of an edited model.
- `evaluate.py` and `gap.py` judge outputs; `measure.py` says what is counted, `statistics.py` how
  sure that is, `kernels.py` what a layer runs as, `cpu.py` what this processor does to 8-bit sums.
- `best_ranges.py` says what other ranges of activations would cost, from counts of their values;
  `settle_ranges.py` puts them into edits that ask for them.
- `comparison_details.py` gathers what a report shows beside a comparison.
- `capture/`, `compare/`, `histograms/`, `whatif/` and `integers/` are the features. They know the
  protocol and no framework; `onnx/` and `torch/` implement it, and know the features' values.

How something is added
- A feature: a folder that asks a `Runnable` for what it needs. What no `Runnable` gives yet becomes
  a method of the protocol, once for each framework.
- A framework: a folder with a `Runnable`, and a line in `open_runnable`.
"""

from quantscope.model import Execution
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.best_ranges import BestRange, BestRanges, best_ranges
from quantscope.run.capture import Capture, CapturedTensor, capture
from quantscope.run.classes import ClassAccuracy, Classes, predicted_classes
from quantscope.run.compare import Comparison, SideBySide, TensorComparison, compare, compare_with
from quantscope.run.comparison_details import ComparisonDetails, gather_details
from quantscope.run.cpu import cpu_name, saturates_8bit_products
from quantscope.run.deviations import OutputDeviation, match_floats, sqnr_of_outputs
from quantscope.run.edited_values import EditedValues
from quantscope.run.estimate import Estimate, estimate_mean
from quantscope.run.evaluate import (
    MeasureSource,
    classify,
    evaluate,
    evaluate_float,
    evaluate_outputs,
)
from quantscope.run.evaluation import AgainstFloat, Evaluation
from quantscope.run.evaluation_delta import (
    ClassChange,
    EvaluationDelta,
    compare_evaluations,
    paired,
)
from quantscope.run.gap import KernelGap, gap_between, kernel_gap, kernel_map
from quantscope.run.histograms import Histogram, Histograms, histograms, weight_histogram
from quantscope.run.integers import (
    Accumulators,
    LayerAccumulator,
    SaturationPrediction,
    Trace,
    accumulators,
    integer_network,
    predict_saturation,
    trace_value,
)
from quantscope.run.kernels import MOVING_OPS, KernelMap, LayerKernel
from quantscope.run.measure import (
    MEASURES,
    Measure,
    Score,
    find_measure,
    pick_measure,
    score_of_classes,
)
from quantscope.run.measure import score as score_outputs
from quantscope.run.onnx.suffix import SuffixRunner
from quantscope.run.origin import Origin
from quantscope.run.outputs import (
    Answers,
    Outputs,
    check_rows,
    finite_rows,
    gather_outputs,
    join_batches,
    may_go_one_by_one,
    same_outputs,
    sample_word,
)
from quantscope.run.runnable import Runnable, Scores, open_runnable
from quantscope.run.sample_ends import End, Ends, ends_of_rows
from quantscope.run.score_delta import ScoreDelta
from quantscope.run.settle_ranges import choose_ends, needs_samples, settle_ranges
from quantscope.run.whatif import DownstreamSqnr, Effect, WhatIf

__all__ = [
    "MEASURES",
    "MOVING_OPS",
    "Accumulators",
    "AgainstFloat",
    "Answers",
    "BestRange",
    "BestRanges",
    "Capture",
    "CapturedTensor",
    "ClassAccuracy",
    "ClassChange",
    "Classes",
    "Comparison",
    "ComparisonDetails",
    "DownstreamSqnr",
    "EditedValues",
    "Effect",
    "End",
    "Ends",
    "Estimate",
    "Evaluation",
    "EvaluationDelta",
    "Execution",
    "Histogram",
    "Histograms",
    "KernelGap",
    "KernelMap",
    "LayerAccumulator",
    "LayerKernel",
    "Measure",
    "MeasureSource",
    "Origin",
    "OutputDeviation",
    "Outputs",
    "Runnable",
    "SaturationPrediction",
    "Score",
    "ScoreDelta",
    "Scores",
    "SideBySide",
    "SuffixRunner",
    "TensorComparison",
    "Trace",
    "WhatIf",
    "accumulators",
    "best_ranges",
    "capture",
    "check_rows",
    "choose_ends",
    "classify",
    "compare",
    "compare_evaluations",
    "compare_with",
    "cores",
    "cpu_name",
    "ends_of_rows",
    "estimate_mean",
    "evaluate",
    "evaluate_float",
    "evaluate_outputs",
    "find_measure",
    "finite_rows",
    "gap_between",
    "gather_details",
    "gather_outputs",
    "histograms",
    "integer_network",
    "join_batches",
    "kernel_gap",
    "kernel_map",
    "match_floats",
    "may_go_one_by_one",
    "needs_samples",
    "open_runnable",
    "paired",
    "pick_measure",
    "predict_saturation",
    "predicted_classes",
    "run_side_by_side",
    "same_outputs",
    "sample_word",
    "saturates_8bit_products",
    "score_of_classes",
    "score_outputs",
    "settle_ranges",
    "sqnr_of_outputs",
    "trace_value",
    "weight_histogram",
]
