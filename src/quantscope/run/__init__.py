"""Everything that executes a network: evaluation now, capture and comparison later.

Two executions, always named: reference (what the file states) and runtime (what ships).
"""

from quantscope.run.classifier import Classifier, Execution, open_classifier
from quantscope.run.evaluate import (
    ClassAccuracy,
    Evaluation,
    PairedDelta,
    classify,
    evaluate,
    paired,
)

__all__ = [
    "ClassAccuracy",
    "Classifier",
    "Evaluation",
    "Execution",
    "PairedDelta",
    "classify",
    "evaluate",
    "open_classifier",
    "paired",
]
