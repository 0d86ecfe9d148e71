"""The effect of edits, found again and again on the same samples.

`whatif.py` is the way in. `runner.py` has the protocol of what executes edited models,
`baseline.py` what they are measured against, `effect.py` and `downstream.py` the first and the
second answer.
"""

from quantscope.run.kernels import KernelChange
from quantscope.run.whatif.downstream import (
    NOT_QUANTIZED,
    DownstreamSqnr,
    mark_unquantized,
    unseen_activations,
)
from quantscope.run.whatif.runner import EditedRunner
from quantscope.run.whatif.whatif import QUICK, Effect, WhatIf

__all__ = [
    "NOT_QUANTIZED",
    "QUICK",
    "DownstreamSqnr",
    "EditedRunner",
    "Effect",
    "KernelChange",
    "WhatIf",
    "mark_unquantized",
    "unseen_activations",
]
