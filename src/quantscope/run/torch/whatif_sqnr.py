"""Find the SQNR of every activation of a program before and after edits, as `compare` does."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quantscope.data import Samples
from quantscope.model import Pairing, QuantTensor
from quantscope.model.pairing import TensorPair
from quantscope.progress import Progress
from quantscope.run.compare import Comparison, compare_run
from quantscope.run.evaluate import Evaluation
from quantscope.run.torch.joint_run import ProgramJointRun
from quantscope.run.torch.nodes import names_read
from quantscope.run.torch.program import ProgramRunnable
from quantscope.run.torch.quantizers import ProgramQuantizer, no_quantizer
from quantscope.run.whatif import (
    NOT_QUANTIZED,
    DownstreamSqnr,
    mark_unquantized,
    unseen_activations,
)

if TYPE_CHECKING:
    from torch.fx import Node

Digests = Mapping[str, str]
"""A digest of every value of a program: equal where it is the same function of the images."""


class ProgramSqnr:
    """Reads SQNRs on one set of images, for one thread at a time."""

    def __init__(
        self,
        base: ProgramRunnable,
        floats: ProgramRunnable,
        pairing: Pairing,
        samples: Samples,
        *,
        batch: int | None,
    ) -> None:
        self._base, self._floats, self._pairing = base, floats, pairing
        self._samples, self._batch = samples, batch
        self._before: Comparison | None = None

    def read(
        self, edited: ProgramRunnable | None, evaluation: Evaluation, progress: Progress
    ) -> DownstreamSqnr:
        """Compare both programs with the float one; `edited` is None where nothing is edited.

        `evaluation` is the edited program's.
        """
        if self._before is None:
            run = ProgramJointRun(self._floats, self._base, self._pairing, detail="sqnr")
            self._before = self._compare(run, progress)
        before = after = self._before
        downstream: tuple[str, ...] = ()
        if edited is not None:
            after = self._after(edited, progress)
            downstream = tuple(self._downstream(edited))
        after = replace(after, model=evaluation.model, digest=evaluation.digest)
        return DownstreamSqnr.between(before, after, downstream)

    @cached_property
    def _digests(self) -> Digests:
        return value_digests(self._base)

    def _compare(self, run: ProgramJointRun, progress: Progress) -> Comparison:
        return compare_run(
            run,
            self._samples,
            threads=self._base.threads,
            batch=self._batch,
            progress=progress,
        )

    def _after(self, edited: ProgramRunnable, progress: Progress) -> Comparison:
        """Compare under the names and in the order of the unedited program, whatever is off."""
        now = self._tensors_in(edited)
        instead = dict(self._instead(edited, now))
        gone = {p.name: p for p in self._activations if p.name not in now}
        unquantized = [(gone[name], nothing) for name, nothing in instead.items()]
        tensors = tuple(now.get(t.name, t) for t in self._base.network.tensors)
        run = ProgramJointRun(
            self._floats,
            edited.with_tensors(tensors),
            replace(self._pairing, pairs=tuple(p for p in self._activations if p.name in now)),
            detail="sqnr",
            unquantized=unquantized,
        )
        found = self._compare(run, progress)
        unseen = {name: NOT_QUANTIZED for name in gone if name not in instead}
        return replace(
            found,
            tensors=mark_unquantized(found.tensors, instead),
            unseen=(*found.unseen, *unseen_activations(unseen)),
        )

    @property
    def _activations(self) -> list[TensorPair]:
        return [pair for pair in self._pairing.pairs if pair.role == "activation"]

    def _tensors_in(self, edited: ProgramRunnable) -> dict[str, QuantTensor]:
        """Find the edited program's tensors by their values; name them as the unedited does."""
        by_value = {name: t for t in edited.network.tensors for name in t.integer_names}
        found = {}
        for tensor in self._base.network.tensors:
            here = next((by_value[n] for n in tensor.integer_names if n in by_value), None)
            if here is not None:
                found[tensor.name] = replace(here, name=tensor.name)
        return found

    def _instead(
        self, edited: ProgramRunnable, now: Mapping[str, QuantTensor]
    ) -> Iterator[tuple[str, ProgramQuantizer]]:
        """Find what the readers of activations that are off get, as if it were quantized."""
        nodes = {node.name: node for node in edited.nodes}
        for pair in self._activations:
            if pair.name in now:
                continue
            tensor = self._base.network.tensor(pair.name)
            value = self._read_instead(tensor, nodes, edited)
            if value is not None:
                yield pair.name, no_quantizer(tensor, value)

    def _read_instead(
        self, tensor: QuantTensor, nodes: "Mapping[str, Node]", edited: ProgramRunnable
    ) -> str | None:
        for reader in self._base.nodes:
            if reader.name in nodes:
                reads = zip(names_read(reader), names_read(nodes[reader.name]), strict=True)
                for before, value in reads:
                    if before in tensor.dequantized_names:
                        return value
        output = self._base.network.outputs[0].name
        return edited.network.outputs[0].name if output in tensor.dequantized_names else None

    def _downstream(self, edited: ProgramRunnable) -> Iterator[str]:
        """Name the activations that are off, or another function of the images than before."""
        digests, now = value_digests(edited), self._tensors_in(edited)
        for pair in self._activations:
            before = self._base.network.tensor(pair.name)
            after = now.get(pair.name)
            if after is None or _digest(before, self._digests) != _digest(after, digests):
                yield pair.name


def _digest(tensor: QuantTensor, digests: Digests) -> list[str | None]:
    return [digests.get(name) for name in tensor.dequantized_names]


def value_digests(program: ProgramRunnable) -> Digests:
    """Digest each value by what computes it; names and files do not count."""
    import torch
    from torch.fx.node import map_arg

    found = {name: f"input {place}" for place, name in enumerate(program.inputs)}
    for name, tensor in program.constants.items():
        content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        found[name] = _hash(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + content)
    read: Any = lambda each: found[each.name]  # noqa: E731
    for node in program.nodes:
        given = map_arg((node.args, node.kwargs), read)
        found[node.name] = _hash(f"{node.target} {given!r}".encode())
    return found


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
