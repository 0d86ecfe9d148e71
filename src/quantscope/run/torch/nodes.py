"""Run the nodes of a torch.export program one by one. Needs the `torch` extra."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import storage_dtype
from quantscope.errors import BadModelError
from quantscope.model.torch import first_line
from quantscope.run.torch.writes import written_by

if TYPE_CHECKING:
    import torch
    from torch.fx import Node
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantscope.model import Model
from quantscope.model.torch import ONE_AT_A_TIME, ProgramModel
from quantscope.zoo import build_torch, read_safetensors

Array = NDArray[Any]
Values = dict[str, Any]
"""The values of a run so far, by the names that the file has for them."""


def run_nodes(
    nodes: "Sequence[Node]",
    values: Values,
    *,
    model: str,
    keep: Collection[str] | None = None,
    watch: Callable[[str, Any], None] | None = None,
    protect: bool = False,
) -> None:
    """Run the nodes and enter what they give into `values`; `watch` sees each of it first.

    With `keep`, all but those named are dropped once nothing more reads them. A few operators
    write into what they are given: with `protect` they get a copy of it.
    """
    import torch

    last = {} if keep is None else _last_readers(nodes, keep)
    with torch.inference_mode():
        for node in nodes:
            found = call(node, values.__getitem__, model=model, protect=protect)
            values[node.name] = found
            if watch is not None:
                watch(node.name, found)
            for name in last.get(node.name, ()):
                values.pop(name, None)


def call(node: "Node", read: Callable[[str], Any], *, model: str, protect: bool = False) -> Any:
    """Run one node on what `read` has under the names that it reads."""
    return prepare(node, model=model, protect=protect)(read)


def prepare(
    node: "Node", *, model: str, protect: bool = False
) -> Callable[[Callable[[str], Any]], Any]:
    """Give `call` for a node that runs often: its arguments are looked through but once."""
    from torch.fx import Node
    from torch.fx.node import map_arg

    target: Any = node.target
    given, options = node.args, node.kwargs
    places = [(at, each.name) for at, each in enumerate(given) if isinstance(each, Node)]
    is_flat = len(places) == len(names_read(node))  # no list of values among them
    written = {each.name for each in written_by(node)} if protect else set()

    def run(read: Callable[[str], Any]) -> Any:
        arguments: list[Any] = list(given)
        named: Any = options
        if written:
            read = _copying(read, written)
        if is_flat:
            for at, name in places:
                arguments[at] = read(name)
        else:
            arguments, named = map_arg((arguments, options), lambda each: read(each.name))
        try:
            return target(*arguments, **named)
        except Exception as error:  # of any kind: the operators are the file's
            raise BadModelError(f"{model} failed while running: {first_line(error)}") from None

    return run


def names_read(node: "Node") -> list[str]:
    """Name what a node reads, in order; the same more than once where it is given so."""
    from torch.fx.node import map_arg

    found: list[str] = []

    def note(each: Any) -> Any:
        found.append(each.name)
        return each

    map_arg((node.args, node.kwargs), note)
    return found


def _copying(read: Callable[[str], Any], names: Collection[str]) -> Callable[[str], Any]:
    return lambda name: read(name).clone() if name in names else read(name)


def _last_readers(nodes: "Sequence[Node]", keep: Collection[str]) -> dict[str, list[str]]:
    """Find the values that may go once a node has run, by that node's name."""
    last: dict[str, str] = {}
    for node in nodes:
        last |= {read.name: node.name for read in node.all_input_nodes if read.name not in keep}
    found: dict[str, list[str]] = {}
    for name, reader in last.items():
        found.setdefault(reader, []).append(name)
    return found


def as_array(tensor: "torch.Tensor", dtype: str | None = None) -> Array:
    """Copy a tensor; `dtype` is the quantized type of integers that NumPy may have no name for."""
    import torch

    tensor = tensor.detach().contiguous()
    if dtype is not None and tensor.dtype.is_floating_point:  # one of the 8-bit floats
        return tensor.view(torch.uint8).numpy().copy().view(storage_dtype(dtype))
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    found = tensor.numpy().copy()
    return found if dtype is None else found.astype(storage_dtype(dtype), copy=False)


def float_scores(value: Any, model: str) -> NDArray[np.floating]:
    """Give a model's first output as floats."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise BadModelError(f"{model} gives no tensor of scores")
    return as_array(value if value.is_floating_point() else value.float())


@contextmanager
def export_resnet8(weights: Model) -> Iterator[ProgramModel]:
    """Export the network that weights (.safetensors) belong to, and open it like any program.

    Its file is there only within the context: what is run and measured must be loaded by then.
    """
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / f"{weights.path.stem}.pt2"
        save_resnet8(weights.path, exported)
        yield ProgramModel(exported, str(exported))


def save_resnet8(weights: Path, output: Path) -> None:
    """Write the float network of these weights (.safetensors) as a program (.pt2)."""
    from quantscope.quantize.pt2e import quiet_torch

    module = build_torch(read_safetensors(weights))
    import torch

    with ONE_AT_A_TIME, quiet_torch(), torch.no_grad():
        # With an example batch of 1 export would fix the batch at 1.
        batch = torch.export.Dim("batch", min=1, max=1 << 20)
        example = (torch.zeros(2, 3, 32, 32),)
        program = torch.export.export(module, example, dynamic_shapes=({0: batch},))
        # Saved, the example would be most of the file.
        program._example_inputs = None
        torch.export.save(program, output)
