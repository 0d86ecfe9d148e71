"""The comparison of two ONNX models as one graph that also reduces the sums between them.

`merge.py` puts both networks into one graph, `graph.py` adds a probe beside each paired activation,
whose sums `sums.py` writes as nodes, with the layer's variants of `sources.py`; `session.py` runs
it, its float half by faster kernels where no number shows it, and `joint_run.py` is the `JointRun`.
"""

from quantscope.run.onnx.compare.graph import ComparisonGraph, GraphProbe, build_graph
from quantscope.run.onnx.compare.joint_run import OnnxJointRun
from quantscope.run.onnx.compare.merge import FLOAT, QUANTIZED

__all__ = [
    "FLOAT",
    "QUANTIZED",
    "ComparisonGraph",
    "GraphProbe",
    "OnnxJointRun",
    "build_graph",
]
