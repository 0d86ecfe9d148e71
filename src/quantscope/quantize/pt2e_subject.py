"""PT2E quantizes a subject: any float program, or ResNet8's weights, and how it is fed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantscope.data import Samples, check_size
from quantscope.errors import BadConfigError, BadDataError, BadModelError
from quantscope.model import Model, Port, open_model, show_shape
from quantscope.model.torch import (
    ONE_AT_A_TIME,
    load_program,
    nest_inputs,
)
from quantscope.quantize.images import INPUT_BYTES_A_BATCH, MAX_BATCH
from quantscope.zoo import build_torch, read_safetensors

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

Arrays = Sequence[NDArray[Any]]
Feeder = Callable[[int, int], Arrays]
"""A function from a range of calibration rows to an array for each input, in the ports' order."""

_MOST_ROWS = 1 << 20


def open_subject(path: Path) -> "Subject":
    """Open a float model; refuse what is quantized already or is no program."""
    model = open_model(path)
    if not model.has_network:
        read_safetensors(path)  # says what is wrong with it before torch is asked for
        return Subject(model)
    if model.as_program is None:
        raise BadModelError(
            f"{path.name} is not quantized with torch: that takes a float program saved with "
            f"torch.export.save (.pt2), or ResNet8's weights (.safetensors)"
        )
    if not model.is_float:
        raise BadModelError(
            f"{path.name} is quantized already; give the float program that it was made from"
        )
    if not model.inputs or not all(port.shape for port in model.inputs):
        raise BadModelError(
            f"{path.name} has no input whose first dimension counts rows; export it with one"
        )
    return Subject(model)


@dataclass(frozen=True, eq=False)
class Subject:
    """A float model that is to be quantized."""

    model: Model

    @property
    def path(self) -> Path:
        return self.model.path

    @property
    def name(self) -> str:
        return self.model.name

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @property
    def is_resnet8(self) -> bool:
        return not self.model.has_network

    @property
    def ports(self) -> tuple[Port, ...]:
        return self.model.inputs

    @property
    def batch(self) -> int | None:
        """The only number of rows that it takes; None where any number goes."""
        first = (self.ports[0].shape or ("N",))[0]
        return first if isinstance(first, int) else None

    @property
    def rows_at_once(self) -> int:
        """The rows of a calibration batch: every activation of it is in memory at once."""
        if self.batch:
            return self.batch
        sizes = [[d for d in (port.shape or ())[1:] if isinstance(d, int)] for port in self.ports]
        row_bytes = sum(4 * int(np.prod(each)) for each in sizes)
        _, most = self.model.size_limits.get(str((self.ports[0].shape or ("N",))[0]), (None, None))
        fitting = max(1, INPUT_BYTES_A_BATCH // max(row_bytes, 1))
        return min(MAX_BATCH, fitting, most or MAX_BATCH)

    @cached_property
    def _program(self) -> "ExportedProgram":
        if program := self.model.as_program:
            return load_program(program.file)
        import torch

        module = build_torch(read_safetensors(self.path))
        batch = torch.export.Dim("batch", min=1, max=_MOST_ROWS)
        # With an example batch of 1 export would fix the batch at 1.
        example = (torch.zeros(2, 3, 32, 32),)
        with ONE_AT_A_TIME:
            return torch.export.export(module, example, dynamic_shapes=({0: batch},))

    def graph(self) -> "GraphModule":
        """Give the network as a graph whose nodes may be changed."""
        with ONE_AT_A_TIME:
            module: GraphModule = self._program.module()
        return module

    def run(self, module: "GraphModule", arrays: Arrays) -> None:
        """Run a form of it on a batch."""
        args, kwargs = self._nested(arrays)
        module(*args, **kwargs)

    def export(self, module: "GraphModule", arrays: Arrays) -> "ExportedProgram":
        """Export a form of it with the same open dimensions; `arrays` are an example."""
        import torch

        args, kwargs = self._nested(arrays)
        (shapes, named) = nest_inputs(self._program, self._open_dimensions())
        dynamic: Any = shapes
        if kwargs:
            names = self._program.module_call_graph[0].signature.forward_arg_names or ()
            dynamic = dict(zip(names, shapes, strict=False)) | named
        with ONE_AT_A_TIME:
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic)

    def _nested(self, arrays: Arrays) -> "tuple[tuple[torch.Tensor, ...], dict[str, Any]]":
        import torch

        return nest_inputs(self._program, [torch.from_numpy(array) for array in arrays])

    def _open_dimensions(self) -> list[Any]:
        """Say for each input which dimensions are open, equal symbols as one dimension."""
        from torch.export import Dim

        known: dict[str, Any] = {}

        def dimension(symbol: str) -> Any:
            if self.is_resnet8:
                return known.setdefault(symbol, Dim("batch", min=1, max=_MOST_ROWS))
            if symbol not in self.model.size_limits:
                return Dim.AUTO  # a function of other dimensions, which export finds again
            least, most = self.model.size_limits[symbol]
            return known.setdefault(symbol, Dim(f"dim_{symbol}", min=least, max=most))

        return [
            {at: dimension(dim) for at, dim in enumerate(port.shape or ()) if isinstance(dim, str)}
            for port in self.ports
        ]

    def feeder(self, rows: Samples) -> Feeder:
        """Give calibration rows as the inputs take them; refuse those that do not fit."""
        arrays = dict(rows.arrays)
        if len(self.ports) == 1 and len(arrays) == 1:
            arrays = {self.ports[0].name: rows.images}
        for port in self.ports:
            if port.name not in arrays:
                raise BadDataError(
                    f"{rows.name} has no array {port.name!r}, an input of {self.name}; "
                    f"it has {', '.join(arrays)}"
                )
            self._check(port, arrays[port.name], rows.name)
        if self.batch and len(rows) % self.batch:
            raise BadConfigError(
                f"{self.name} takes {self.batch} rows at once, and {len(rows)} calibration rows "
                f"do not divide by that; choose a multiple of {self.batch}"
            )

        def feed(start: int, stop: int) -> Arrays:
            return [
                np.ascontiguousarray(_rows(arrays[port.name], start, stop), dtype=port.dtype)
                for port in self.ports
            ]

        return feed

    def _check(self, port: Port, array: NDArray[Any], source: str) -> None:
        wanted, found = (port.shape or ())[1:], array.shape[1:]
        fits = len(wanted) == len(found) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(wanted, found, strict=True)
        )
        if not fits:
            what = "images" if len(self.ports) == 1 else f"rows of {port.name!r}"
            raise BadDataError(
                f"The calibration {what} of {source} have the shape {list(found)}, but "
                f"{self.name} takes {show_shape(wanted)}; save them in the model's own shape"
            )
        for dim, size in zip(wanted, found, strict=True):
            if isinstance(dim, str):
                check_size(port, dim, size, self.model.size_limits, name=source, model=self.name)
        if np.dtype(port.dtype).kind in "iub" and array.dtype.kind == "f":
            raise BadDataError(
                f"The calibration rows of {source} are {array.dtype}, but {port.name!r} of "
                f"{self.name} takes {port.dtype}; save them as {port.dtype}"
            )


def _rows(array: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Take rows; the last one again where there are too few, for an example of two."""
    found = array[start:stop]
    missing = stop - start - len(found)
    return np.concatenate([found, np.repeat(array[-1:], missing, axis=0)]) if missing else found
