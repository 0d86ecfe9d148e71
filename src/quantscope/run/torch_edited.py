"""An edited program as a classifier. Needs the `torch` extra."""

import tempfile
from pathlib import Path

from quantscope.edit.torch_apply import AppliedProgram
from quantscope.run.classifier import Classifier
from quantscope.run.torch_classifier import open_torch


def open_edited(applied: AppliedProgram) -> Classifier:
    """What `evaluate` takes; loaded as any file is, after the same checks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{applied.sources[0].stem}-edited.pt2"
        path.write_bytes(applied.to_bytes())
        return open_torch(path)
