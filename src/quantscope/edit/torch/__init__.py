"""PT2E programs under edits, without torch.

`subject.py` is the `Subject`, `shadow.py` states a program as the QDQ graph that plans are made on,
`floats.py` finds its float weights, `write.py` changes its file.
"""

from quantscope.edit.torch.subject import open_program_subject

__all__ = [
    "open_program_subject",
]
