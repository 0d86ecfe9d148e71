"""Which layers the score of a quantized network hangs on.

`sensitivity.py` is the way in: it switches each layer's quantization and sweeps all of them at once
(`study/sweep/`), `targets.py` finds what can be switched, `rows.py` ranks, `results.py` is what
comes of it.
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
from quantscope.study.sensitivity.targets import Targets, find_targets

__all__ = [
    "INPUT_TYPE",
    "Base",
    "NotSwitched",
    "RowMode",
    "Sensitivity",
    "SensitivityRow",
    "Targets",
    "find_targets",
    "sensitivity",
]
