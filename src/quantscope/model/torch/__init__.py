"""This room reads programs of torch.export (.pt2), and looks into PyTorch's archives at large.

Programs are float or quantized with PT2E. Nothing here but `file.py` needs torch, and that
imports it only when something is loaded: a program is read from its own JSON.

How it is put together
- `archive.py` opens a zip archive within limits and looks into a pickle without running it,
  `file.py` tells kinds of files apart (`torch_kind`) and opens a program (`open_pt2`).
- `pt2_program.py` lets through what is known to be harmless, with the operators of
  `pt2_operators.py` and the expressions of `sym_expr.py`; `load_program` gives the rest to torch.
- `pt2_graph.py` has a program's operators and types, `pt2_quantizers.py` its quantized tensors,
  `operators.py` the names and words for its layers; `reader.py` hands all that to
  `model/assemble.py`.

How something is added
- A name for an operator: `operators.py`. One that a program may not call yet: `pt2_operators.py`,
  after a look at what it can be made to do.
- What TorchScript archives need as well is exported here and used by `model/torchscript`, never the
  other way round.
"""

from quantscope.model.torch.archive import (
    TorchArchive,
    is_zip,
    look_into,
    new_archive,
    open_archive,
)
from quantscope.model.torch.file import (
    ONE_AT_A_TIME,
    Pt2File,
    archive_kind,
    extra_texts,
    first_line,
    load_program,
    nest_inputs,
    open_pt2,
    quiet,
    require_torch,
    torch_kind,
)
from quantscope.model.torch.model import ProgramModel, TorchModel, WeightsModel
from quantscope.model.torch.operators import (
    ModuleOp,
    attributes_from,
    module_layer_names,
    op_type_of,
)
from quantscope.model.torch.pt2_graph import (
    ProgramGraph,
    ProgramNode,
    Ref,
    TensorType,
    program_graph,
)
from quantscope.model.torch.pt2_operators import RefusedError
from quantscope.model.torch.pt2_program import DTYPES
from quantscope.model.torch.pt2_quantizers import read_stored
from quantscope.model.torch.reader import KEEPS_PARAMS, first_drafts, read_pt2, relu_drafts

__all__ = [
    "DTYPES",
    "KEEPS_PARAMS",
    "ONE_AT_A_TIME",
    "ModuleOp",
    "ProgramGraph",
    "ProgramModel",
    "ProgramNode",
    "Pt2File",
    "Ref",
    "RefusedError",
    "TensorType",
    "TorchArchive",
    "TorchModel",
    "WeightsModel",
    "archive_kind",
    "attributes_from",
    "extra_texts",
    "first_drafts",
    "first_line",
    "is_zip",
    "load_program",
    "look_into",
    "module_layer_names",
    "nest_inputs",
    "new_archive",
    "op_type_of",
    "open_archive",
    "open_pt2",
    "program_graph",
    "quiet",
    "read_pt2",
    "read_stored",
    "relu_drafts",
    "require_torch",
    "torch_kind",
]
