"""TorchScript archives as PyTorch runs them: on the kernels that ship. Needs the `torch` extra."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from quantscope.data import Feeds, Intake, Samples
from quantscope.edit import Editor
from quantscope.errors import BadModelError
from quantscope.model import Network, Pairing, Port, QuantTensor, show_shape
from quantscope.model.torchscript import ArchiveModel
from quantscope.progress import Progress
from quantscope.run.capture import Seen, Wanted
from quantscope.run.compare import Detail
from quantscope.run.histograms import ValueReader
from quantscope.run.runnable import Runnable
from quantscope.run.torch.runnable import Array, TorchRunnable, versions
from quantscope.run.torch.seeing import see_archive

if TYPE_CHECKING:
    from quantscope.run.torch.joint_run import ProgramJointRun
    from quantscope.run.torch.whatif import ProgramEditedRunner


class ArchiveRunnable(TorchRunnable):
    """A TorchScript archive as it ships, on torch's quantized kernels."""

    model: ArchiveModel

    def __init__(self, model: ArchiveModel) -> None:
        import torch

        network = model.network
        self.model, self.execution = model, "runtime"
        last = network.outputs[0].source if network.outputs else None
        self.intake = Intake(model.name, (_archive_port(network),))
        self.gives_probabilities = last is not None and network.layer(last).op_type == "Softmax"
        self.provenance = {
            **versions(),
            "quantized engine": str(torch.backends.quantized.engine),
        }

    @property
    def _module(self) -> Callable[..., Any]:
        return self.model.module

    @property
    def as_program(self) -> NoReturn:
        raise self._refusal()

    def is_value(self, name: str) -> bool:
        return any(o.name == name for layer in self.network.layers for o in layer.outputs)

    def see(
        self, wanted: Sequence[Wanted], samples: Samples, *, batch: int | None, progress: Progress
    ) -> Seen:
        return see_archive(self, wanted, samples, batch=batch, progress=progress)

    def reader(self, tensors: Sequence[QuantTensor]) -> ValueReader:
        del tensors
        raise self._refusal()

    def values(self, names: Sequence[str], feeds: Feeds) -> Mapping[str, Array]:
        del names, feeds
        raise self._refusal()

    def against(
        self, floats: Runnable, pairing: Pairing | None = None, *, detail: Detail = "full"
    ) -> "ProgramJointRun":
        del floats, pairing, detail
        raise self._refusal()

    def under_edits(
        self, editor: Editor, samples: Samples, *, batch: int | None, kept_bytes_limit: int
    ) -> "ProgramEditedRunner":
        del editor, samples, batch, kept_bytes_limit
        raise self._refusal()

    def _refusal(self) -> BadModelError:
        return BadModelError(
            f"{self.name} is a TorchScript archive, not a program of torch.export; its "
            f"integers can be captured, but it is not compared or edited"
        )


def _archive_port(network: Network) -> Port:
    """Describe the input as it was traced, or else by what the first layers do with it."""
    name, count = network.path.name, len(network.inputs)
    if count != 1:
        raise BadModelError(f"{name} has {count} inputs; a classifier of images has one")
    operand = network.inputs[0]
    shape = operand.shape
    if shape is None:
        channels = _channels(network)
        turns = bool(network.layers) and network.layers[0].op_type == "Transpose"
        shape = ("N", None, None, channels) if turns else ("N", channels, None, None)
    elif len(shape) != 4:
        raise BadModelError(
            f"The input of {name} was traced with the shape {show_shape(shape)}; images need four "
            "dimensions, such as [N, 3, 32, 32]"
        )
    # A traced batch is an example's, not a limit.
    return Port(operand.name, "float32", ("N", *shape[1:]))


def _channels(network: Network) -> int | None:
    """Give the number of channels that the first convolution takes; None where not known."""
    first = next((layer for layer in network.layers if layer.op_type == "Conv"), None)
    if first is None or first.weight is None or first.weight.shape is None:
        return None
    a_group, groups = first.weight.shape[1], first.attributes.get("group", 1)
    return a_group * groups if isinstance(a_group, int) and isinstance(groups, int) else None
