"""Which layers the score of a quantized network hangs on.

`sensitivity.py` is the way in: it switches each layer's quantization and sweeps all of them at once
(`study/sweep/`), `rows.py` ranks, `results.py` is what comes of it.
"""

from quantscope.study.sensitivity.results import Base, RowMode, Sensitivity, SensitivityRow
from quantscope.study.sensitivity.sensitivity import sensitivity

__all__ = [
    "Base",
    "RowMode",
    "Sensitivity",
    "SensitivityRow",
    "sensitivity",
]
