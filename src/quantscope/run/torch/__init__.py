"""PyTorch's programs, weights and archives, run by PyTorch. Needs the `torch` extra.

How it is put together
- `runnable.py` is what all kinds of files have in common, `program.py` runs programs and weights,
  `archive.py` TorchScript archives; `kinds.py` picks among them. `nodes.py` runs a program node by
  node, `script.py` follows an archive's graph, `seeing.py` reads inner values.
- `joint_run.py` is the `JointRun`: `joint_programs.py` runs two programs side by side in the order
  of `schedule.py` and `steps.py`, `probes.py` takes the sums, `sources.py` runs a layer again on
  other inputs, `quantizers.py` has quantizers as functions, `weights.py` compares constants.
- `whatif.py` runs edited programs whole, `whatif_sqnr.py` compares them.
- `writes.py` knows which values are written into later; `threads.py` keeps threads and freed memory
  out of each other's way.

torch is imported inside functions, so that importing this room costs nothing where it is missing.
"""

from quantscope.run.torch.kinds import open_torch
from quantscope.run.torch.runnable import program_of
from quantscope.run.torch.whatif import open_edited

__all__ = [
    "open_edited",
    "open_torch",
    "program_of",
]
