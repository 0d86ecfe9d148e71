"""Which layers the score of a quantized network hangs on.

`sensitivity.py` is the way in: it switches each layer's quantization. `graph.py` puts all variants
into one graph that computes once what they have in common, `sweep.py` runs it, `rows.py` ranks,
`results.py` is what comes of it; `targets.py` finds what can be switched.
"""

from quantscope.study.sensitivity.results import (
    INPUT_TYPE,
    Base,
    NotSwitched,
    RowMode,
    Sensitivity,
    SensitivityRow,
)
from quantscope.study.sensitivity.sensitivity import sensitivity
from quantscope.study.sensitivity.sweep import Sweep, fitting_batch
from quantscope.study.sensitivity.targets import Targets, find_targets

__all__ = [
    "INPUT_TYPE",
    "Base",
    "NotSwitched",
    "RowMode",
    "Sensitivity",
    "SensitivityRow",
    "Sweep",
    "Targets",
    "find_targets",
    "fitting_batch",
    "sensitivity",
]
