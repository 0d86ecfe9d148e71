"""A quantized ONNX network in exact integers, NumPy only.

`layer.py` takes a layer as integers that meet, `compute.py` says what they become, `network.py`
runs all layers. On top of that: `trace.py` (with `trace_terms.py` and `trace_runtime.py`) takes one
output value apart, `accumulators.py` counts the bits that sums need, `saturation.py` predicts what
a CPU without VNNI makes of a model.
"""

from quantscope.run.integers.accumulators import Accumulators, LayerAccumulator, accumulators
from quantscope.run.integers.network import integer_network
from quantscope.run.integers.saturation import (
    SaturationPrediction,
    predict_answers_without_vnni,
    predict_saturation,
)
from quantscope.run.integers.trace import Trace, trace_value
from quantscope.run.integers.trace_runtime import RuntimeTrace
from quantscope.run.integers.trace_terms import Multiplier, Term

__all__ = [
    "Accumulators",
    "LayerAccumulator",
    "Multiplier",
    "RuntimeTrace",
    "SaturationPrediction",
    "Term",
    "Trace",
    "accumulators",
    "integer_network",
    "predict_answers_without_vnni",
    "predict_saturation",
    "trace_value",
]
