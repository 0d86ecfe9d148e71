"""A calibration set's effect on the ranges of a float network, tensor by tensor.

`inspect_calibration` is the way in: it runs the float model once over the calibration samples and
once over others. `extremes.py` reads, `keepers.py` keeps what is told of a tensor
as rows go by, in memory that does not grow with them; `results.py` is what comes of it.
"""

from quantscope.study.calibration.extremes import read_extremes
from quantscope.study.calibration.inspect import inspect_calibration
from quantscope.study.calibration.results import (
    CalibrationInspection,
    Overflow,
    RangeEnd,
    TensorRange,
)

__all__ = [
    "CalibrationInspection",
    "Overflow",
    "RangeEnd",
    "TensorRange",
    "inspect_calibration",
    "read_extremes",
]
