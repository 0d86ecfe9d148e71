"""The runnables of PyTorch's files, and what they have in common. Needs the `torch` extra.

Each has one execution: programs and weights compute what they state, an archive's operators are the
kernels that ship.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from quantscope.data import Feeds, rows_of, take_rows
from quantscope.errors import BadModelError
from quantscope.model.torch import first_line
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.cpu import cpu_name
from quantscope.run.runnable import Runnable, Scores
from quantscope.run.torch.nodes import as_array
from quantscope.run.torch.threads import one_thread_each

if TYPE_CHECKING:
    import torch

    from quantscope.run.torch.program import ProgramRunnable

Array = NDArray[Any]
Outputs = list["torch.Tensor"]

_PIECE = 64


class TorchRunnable(Runnable):
    """A PyTorch file in its one execution: a callable that takes and gives tensors."""

    @property
    @abstractmethod
    def _module(self) -> Callable[..., Any]: ...

    @property
    def _output_names(self) -> tuple[str, ...]:
        return tuple(port.name for port in self.model.outputs)

    def run(self, feeds: Feeds) -> dict[str, Array]:
        return self.outputs(feeds)

    def outputs(self, feeds: Feeds) -> dict[str, Array]:
        """Give all outputs of one batch by their names, however the program nests them."""
        found = self._outputs(feeds)
        names = [*self._output_names, *(f"output{at}" for at in range(len(found)))]
        return {name: as_array(each) for name, each in zip(names, found, strict=False)}

    def scores(self, feeds: Feeds) -> Scores:
        first = self._outputs(feeds)[0]
        found: Scores = (first if first.is_floating_point() else first.float()).numpy()
        return found

    def _outputs(self, feeds: Feeds) -> Outputs:
        """Give all tensors that a batch gives, however they are nested."""
        import torch

        try:
            with torch.inference_mode():
                found = self._call([torch.from_numpy(array) for array in feeds.values()])
        except Exception as error:  # of any kind: the operators are the file's
            raise BadModelError(f"{self.name} failed while running: {first_line(error)}") from None
        flat = _flat(found)
        if not flat or not isinstance(flat[0], torch.Tensor):
            raise BadModelError(f"{self.name} gives no tensor of scores")
        return [each for each in flat if isinstance(each, torch.Tensor)]

    def _call(self, inputs: "Sequence[torch.Tensor]") -> Any:
        """Run the module on its inputs in order."""
        return self._module(*inputs)

    @property
    @abstractmethod
    def as_program(self) -> "ProgramRunnable":
        """The program that can be run node by node, which weights are exported as."""

    def spread(self, threads: int) -> AbstractContextManager[None]:
        return one_thread_each(threads)


def program_of(runnable: Runnable) -> "ProgramRunnable":
    """Give what can be run node by node; refuse a model that PyTorch does not run."""
    if isinstance(runnable, TorchRunnable):
        return runnable.as_program
    raise BadModelError(f"{runnable.name} is not a program of PyTorch")


def in_pieces(run: Callable[[Feeds], Outputs], feeds: Feeds) -> Outputs:
    """Run a batch in pieces, one a core: threads that share each short operator mostly wait."""
    rows = rows_of(feeds)
    if rows <= _PIECE:
        return run(feeds)
    pieces = [take_rows(feeds, start, start + _PIECE) for start in range(0, rows, _PIECE)]
    with one_thread_each(cores()):
        return joined([found for _, found in run_side_by_side(run, pieces, threads=cores())])


def joined(parts: Sequence[Outputs]) -> Outputs:
    import torch

    return parts[0] if len(parts) == 1 else [torch.cat(each) for each in zip(*parts, strict=True)]


def _flat(found: Any) -> list[Any]:
    """List what a module gives, however tuples, lists and dictionaries nest it."""
    if isinstance(found, dict):
        found = list(found.values())
    if not isinstance(found, tuple | list):
        return [found]
    return [each for part in found for each in _flat(part)]


def versions() -> dict[str, str]:
    """Name what the numbers of a run depend on."""
    import torch

    found = {"torch": torch.__version__, "quantscope": version("quantscope")}
    return {**found, "cpu": cpu_name()}
