"""ONNX models, run by onnxruntime.

How it is put together
- `runnable.py` is the `Runnable`, `sessions.py` opens sessions the same way everywhere.
- `seeing.py` and `readers.py` read inner values where that does not change what runs, or cut out
  the part of a graph that computes them; `kernels.py` reads what the optimizer made of each layer,
  and which kernels an edit changes. `extremes.py` reads each sample's least and largest values.
- `compare/` is the comparison as one graph.
- `whatif.py` runs edited models by `suffix/`, only as far as an edit reaches; `whatif_sqnr.py`
  compares them, `whatif_off.py` and `visible.py` look at what a comparison's graph does not show.
"""

from quantscope.run.onnx.extremes import ExtremesReader
from quantscope.run.onnx.readers import only_up_to
from quantscope.run.onnx.runnable import OnnxRunnable
from quantscope.run.onnx.sessions import reason_of, run_session, session_of

__all__ = [
    "ExtremesReader",
    "OnnxRunnable",
    "only_up_to",
    "reason_of",
    "run_session",
    "session_of",
]
