"""ONNX models under edits.

`subject.py` is the `Subject`, `write.py` says what an outcome changes in a graph, `rewrite.py`
makes the changed copy.
"""

from quantscope.edit.onnx.subject import OnnxSubject

__all__ = [
    "OnnxSubject",
]
