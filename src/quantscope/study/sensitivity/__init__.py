"""Which layers the score of a quantized network hangs on.

`sensitivity.py` is the way in: it switches each layer's quantization. `graph.py` puts all variants
into one graph that computes once what they have in common, `sweep.py` runs it, `rows.py` ranks,
`results.py` is what comes of it.
"""

from quantscope.study.sensitivity.results import Base, RowMode, Sensitivity, SensitivityRow
from quantscope.study.sensitivity.sensitivity import sensitivity
from quantscope.study.sensitivity.sweep import Sweep, fitting_batch

__all__ = [
    "Base",
    "RowMode",
    "Sensitivity",
    "SensitivityRow",
    "Sweep",
    "fitting_batch",
    "sensitivity",
]
