"""Programs of torch.export, ready to be run node by node. Needs the `torch` extra.

A program is loaded only after its file was checked. ResNet8's weights become one by exporting the
network that they belong to.
"""

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic.params import storage_dtype
from quantscope.data import ImageSet
from quantscope.errors import BadModelError
from quantscope.model import Network
from quantscope.model.torch import (
    ONE_AT_A_TIME,
    first_line,
    load_program,
    open_pt2,
    program_graph,
    read_pt2,
    torch_kind,
)
from quantscope.run.batches import input_batches
from quantscope.run.classifier import Classifier
from quantscope.run.torch.classifier import batch_limits, program_classifier
from quantscope.run.torch.writes import Writes, writes_of, written_by
from quantscope.zoo import build_torch, read_safetensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

Array = NDArray[Any]
Values = dict[str, Any]
"""Of a run so far, by the names that the file has for them."""


@dataclass(frozen=True, eq=False)
class Program:
    """`nodes` are those that compute, in order; `constants` the weights by their names there.

    `least` and `most` bound the batches that it is run with.
    """

    network: Network
    classifier: Classifier
    nodes: "tuple[Node, ...]" = field(repr=False)
    constants: Mapping[str, Any] = field(repr=False)
    input: str
    least: int
    most: int | None

    @property
    def name(self) -> str:
        return self.network.path.name

    @cached_property
    def writes(self) -> Writes:
        return writes_of(self.nodes)

    def start(self, images: Array) -> Values:
        """What a run may write into is its own."""
        import torch

        values = {**self.constants, self.input: torch.from_numpy(images)}
        for name in values.keys() & self.writes.touched:
            values[name] = values[name].clone()
        return values

    def batches(self, images: ImageSet, batch: int | None) -> Iterator[tuple[Array, int]]:
        return input_batches(self.classifier, images, batch, least=self.least, most=self.most)


@contextmanager
def opened_program(path: Path) -> Iterator[Program]:
    """A program (.pt2), or ResNet8's weights (.safetensors) as one."""
    if path.suffix != ".safetensors":
        if torch_kind(path) != "pt2":
            raise BadModelError(
                f"{path.name} is a TorchScript archive, not a program of torch.export; its "
                f"integers can be captured, but it is not compared or edited"
            )
        yield _open(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / f"{path.stem}.pt2"
        save_resnet8(path, exported)
        program = _open(exported)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        classifier = replace(program.classifier, name=path.name, digest=digest)
        network = replace(program.network, path=path, digest=digest)
        yield replace(program, network=network, classifier=classifier)


def save_resnet8(weights: Path, output: Path) -> None:
    """The float network of these weights (.safetensors) as a program (.pt2)."""
    from quantscope.quantize.pt2e import quiet_torch

    module = build_torch(read_safetensors(weights))
    import torch

    with ONE_AT_A_TIME, quiet_torch(), torch.no_grad():
        # With an example batch of 1 export would fix the batch at 1.
        batch = torch.export.Dim("batch", min=1, max=1 << 20)
        example = (torch.zeros(2, 3, 32, 32),)
        program = torch.export.export(module, example, dynamic_shapes=({0: batch},))
        program._example_inputs = None
        torch.export.save(program, output)


def _open(path: Path) -> Program:
    file = open_pt2(path)
    graph = program_graph(file)
    loaded = load_program(file)
    least, most = batch_limits(graph)
    return Program(
        network=read_pt2(file),
        classifier=program_classifier(file, graph, loaded),
        nodes=tuple(node for node in loaded.graph.nodes if node.op == "call_function"),
        constants=_constants(loaded),
        input=graph.inputs[0],
        least=least,
        most=most,
    )


def _constants(program: "ExportedProgram") -> dict[str, Any]:
    held = {**program.constants, **program.state_dict}
    return {
        spec.arg.name: held[spec.target].detach()
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }


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
    """What one node gives for what `read` has under the names that it reads."""
    return prepared(node, model=model, protect=protect)(read)


def prepared(
    node: "Node", *, model: str, protect: bool = False
) -> Callable[[Callable[[str], Any]], Any]:
    """`call` for a node that runs often: its arguments are looked through but once."""
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
    """What a node reads, in order; the same more than once where it is given so."""
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
    last: dict[str, str] = {}
    for node in nodes:
        last |= {read.name: node.name for read in node.all_input_nodes if read.name not in keep}
    found: dict[str, list[str]] = {}
    for name, reader in last.items():
        found.setdefault(reader, []).append(name)
    return found


def as_array(tensor: "torch.Tensor", dtype: str | None = None) -> Array:
    """A copy; `dtype` is the quantized type of integers, which NumPy may have no name for."""
    import torch

    tensor = tensor.detach().contiguous()
    if dtype is not None and tensor.dtype.is_floating_point:  # one of the 8-bit floats
        return tensor.view(torch.uint8).numpy().copy().view(storage_dtype(dtype))
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    found = tensor.numpy().copy()
    return found if dtype is None else found.astype(storage_dtype(dtype), copy=False)


def float_scores(value: Any, model: str) -> NDArray[np.floating]:
    """A model's first output as floats."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise BadModelError(f"{model} gives no tensor of scores")
    return as_array(value if value.is_floating_point() else value.float())
