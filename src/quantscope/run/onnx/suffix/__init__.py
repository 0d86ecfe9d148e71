"""Running only what an edit can change.

`graph.py` says what an execution really runs and what each value is a function of, `runner.py`
where an edited model can start from, `kept.py` keeps the activations to start from, `part.py` runs
parts of graphs over all samples, and `pieces.py` says whether a batch may be run in pieces with the
same bits.
"""

from quantscope.run.onnx.suffix.graph import (
    Digest,
    ValueGraph,
    chain_of,
    executed_graph,
    frontier,
    intake_of,
    optimize,
    read_by,
    value_graph,
)
from quantscope.run.onnx.suffix.kept import SizeLimits
from quantscope.run.onnx.suffix.part import PartBatch, PartRunner
from quantscope.run.onnx.suffix.runner import SuffixRunner

__all__ = [
    "Digest",
    "PartBatch",
    "PartRunner",
    "SizeLimits",
    "SuffixRunner",
    "ValueGraph",
    "chain_of",
    "executed_graph",
    "frontier",
    "intake_of",
    "optimize",
    "read_by",
    "value_graph",
]
