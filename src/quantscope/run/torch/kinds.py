"""Open any of PyTorch's files to be run: a program, weights or an archive."""

from quantscope.errors import BadModelError
from quantscope.model import Model
from quantscope.model.torch import ProgramModel, WeightsModel
from quantscope.model.torchscript import ArchiveModel
from quantscope.run.torch.archive import ArchiveRunnable
from quantscope.run.torch.program import ProgramRunnable, WeightsRunnable
from quantscope.run.torch.runnable import TorchRunnable


def open_torch(model: Model, *, threads: int = 0) -> TorchRunnable:
    """Open any of PyTorch's files; `threads` are those that compare it."""
    match model:
        case WeightsModel():
            return WeightsRunnable(model)
        case ProgramModel():
            return ProgramRunnable(model, threads=threads)
        case ArchiveModel():
            return ArchiveRunnable(model)
        case _:
            raise BadModelError(f"{model.name} is not a file that PyTorch runs")
