"""The values of chosen tensors for chosen samples.

`capture.py` is the way in; `captured.py` has the result and which tensor a name stands for, and
puts batches together; `file.py` writes a result as .npz. A `Runnable` decides what can be seen.
"""

from quantscope.run.capture.capture import capture
from quantscope.run.capture.captured import (
    Capture,
    CapturedTensor,
    SampleParts,
    Seen,
    Wanted,
    to_captured,
)
from quantscope.run.capture.file import capture_to_dict, save_capture, value_range

__all__ = [
    "Capture",
    "CapturedTensor",
    "SampleParts",
    "Seen",
    "Wanted",
    "capture",
    "capture_to_dict",
    "save_capture",
    "to_captured",
    "value_range",
]
