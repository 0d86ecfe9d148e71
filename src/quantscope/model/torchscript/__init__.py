"""This room reads TorchScript archives (.pt) as FX quantization makes them; none is edited.

Unlike a program of torch.export, an archive packs its weights in a form that only torch unpacks,
so reading one needs the `torch` extra. Importing this room does not.

How it is put together
- `file.py` looks into an archive before torch loads it (`open_torchscript`), `code.py` into the
  Python text that it holds; `loading.py` loads what was checked.
- `reader.py` follows the module's graph from operator to operator: `code.py` works out numbers and
  which way a condition goes, `shapes.py` the shapes, which are not stored, `weights.py` the packed
  weights. What it finds goes to `model/assemble.py`.

How something is added
- An operator that changes shapes: `shapes.py`; one on numbers: `code.py`; one with packed weights:
  `weights.py`. Words for operators are those of `model/torch/operators.py`.
"""

from quantscope.model.torchscript.code import branch_of, computed, graph_of
from quantscope.model.torchscript.file import TorchScriptFile, open_torchscript
from quantscope.model.torchscript.loading import load_torchscript
from quantscope.model.torchscript.model import ArchiveModel
from quantscope.model.torchscript.reader import network_of, read_torchscript
from quantscope.model.torchscript.weights import is_packed

__all__ = [
    "ArchiveModel",
    "TorchScriptFile",
    "branch_of",
    "computed",
    "graph_of",
    "is_packed",
    "load_torchscript",
    "network_of",
    "open_torchscript",
    "read_torchscript",
]
