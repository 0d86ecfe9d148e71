"""The edited model as a file of its own, for what reads models from files."""

import shutil
import tempfile
import weakref
from pathlib import Path
from threading import RLock

import onnx

from quantscope.edit import Applied, Change, Edit
from quantscope.model import Model, Network, open_model


class EditedFile:
    """Written and opened when it is first asked for, and gone with the last who holds it.

    Who asks `model` for something must hold this object meanwhile: weights are read from the file.
    """

    def __init__(self, applied: Applied, original: Network) -> None:
        self._applied, self._original = applied, original
        self._path: Path | None = None
        self._model: Model | None = None
        self._lock = RLock()

    @property
    def of(self) -> tuple[str, tuple[Edit, ...]]:
        """The original's digest and the edits: equal ones give equal files."""
        return self._applied.base_digest, self._applied.edits

    @property
    def changes(self) -> tuple[Change, ...]:
        return self._applied.changes

    @property
    def in_force(self) -> str:
        """`the edit in force`, `the 3 edits in force`: as a sentence has it."""
        count = len(self._applied.edits)
        return "the edit in force" if count == 1 else f"the {count:,} edits in force"

    @property
    def path(self) -> Path:
        with self._lock:
            if self._path is None:
                folder = tempfile.mkdtemp(prefix="quantscope-edited-")
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                self._path = Path(folder) / self._original.path.name
                self._path.write_bytes(_content(self._applied, self._original))
            return self._path

    @property
    def model(self) -> Model:
        with self._lock:
            if self._model is None:
                self._model = open_model(self.path)
            return self._model


def _content(applied: Applied, original: Network) -> bytes:
    """Give the original's layer names: a QOperator file is edited as QDQ, which has others."""
    if not applied.lifted:
        return applied.to_bytes()
    proto = onnx.ModelProto()
    proto.CopyFrom(applied.proto)
    names = {layer.node_name: layer.name for layer in original.layers}
    for node in proto.graph.node:
        node.name = names.get(node.name, node.name)
    return bytes(proto.SerializeToString(deterministic=True))
