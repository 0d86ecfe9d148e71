"""Keep activations to start from, within a limit of bytes."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantscope.run.onnx.suffix.graph import Digest, ValueGraph, read_by

Array = NDArray[Any]

_QUANTIZED_BYTES = 20_000
_FLOAT_BYTES = 65_536
"""The limit where the model is not quantized, or float values are needed beside quantized ones."""
# Of what may be kept for a sample in all: few samples may be large ones.
_QUANTIZED_SHARE, _FLOAT_SHARE = 1 / 32, 1 / 6

SPARE_VALUES = 4


class Size(NamedTuple):
    """The memory that a value takes."""

    bytes_an_image: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class SizeLimits:
    """The most bytes of one value that are kept for a sample; `quantized` are those of integers."""

    quantized: int
    floats: int

    @classmethod
    def of(cls, kept_bytes: int, samples: int) -> "SizeLimits":
        """Choose them by the bytes that may be kept in all."""
        share = kept_bytes / samples
        return cls(
            max(_QUANTIZED_BYTES, int(share * _QUANTIZED_SHARE)),
            max(_FLOAT_BYTES, int(share * _FLOAT_SHARE)),
        )


Probe = Callable[[ValueGraph, Sequence[str]], Mapping[str, Size]]
"""A function that measures those of these values that can be given out as arrays."""


class KeptValues:
    """Values by what they are a function of, a list of batches; those used longest ago go first.

    Of those that are kept only because they may be asked for again, there are at most four.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._values: OrderedDict[Digest, list[Array]] = OrderedDict()
        self._spare: OrderedDict[Digest, None] = OrderedDict()

    def __contains__(self, digest: Digest) -> bool:
        return digest in self._values

    def __getitem__(self, digest: Digest) -> list[Array]:
        for order in (self._values, self._spare):
            if digest in order:
                order.move_to_end(digest)
        return self._values[digest]

    def bytes_of(self, digest: Digest) -> int:
        """Count the bytes of a value; 0 where it is not kept."""
        return _bytes(self._values.get(digest, []))

    def put(self, digest: Digest, batches: list[Array], *, spare: bool = False) -> None:
        self._drop(digest)
        self._values[digest] = batches
        self.bytes += _bytes(batches)
        if spare:
            self._spare[digest] = None
        while len(self._spare) > SPARE_VALUES:
            self._drop(next(iter(self._spare)))
        while self.bytes > self.limit:
            self._drop(next(iter(self._values)))

    def _drop(self, digest: Digest) -> None:
        self._spare.pop(digest, None)
        self.bytes -= _bytes(self._values.pop(digest, []))


class Known:
    """The values of a model that ran, and which of them may be kept."""

    def __init__(self, graph: ValueGraph, probe: Probe, limits: SizeLimits) -> None:
        self.graph = graph
        self._probe, self._limits = probe, limits
        self.digests = frozenset(graph.digests[name] for name in graph.dependent)

    @cached_property
    def keepable(self) -> dict[str, int]:
        """The bytes an image of integers, and of what all of an output goes through, if few."""
        graph, makers = self.graph, self.graph.makers
        found = {}
        for name, size in self._measured.items():
            # The integers before a DequantizeLinear say the same in a quarter of the bytes.
            is_integer = size.dtype.kind in "iu" and size.dtype.itemsize <= 2
            is_cut = name in graph.cuts and makers[name].op_type != "DequantizeLinear"
            limit = self._limits.quantized if is_integer else _QUANTIZED_BYTES
            if size.dtype.kind == "f" and name not in self._quantized:
                limit = self._limits.floats
            if (is_integer or is_cut) and size.bytes_an_image <= limit:
                found[name] = size.bytes_an_image
        return found

    @cached_property
    def keepable_digests(self) -> frozenset[Digest]:
        return frozenset(self.graph.digests[name] for name in self.keepable)

    def size_of(self, digest: Digest) -> int | None:
        """Give the bytes an image of a value that may be kept, else None.

        Besides `keepable`, what a quantizer reads: kept only when that quantizer is edited, since
        it is likely to be edited again.
        """
        return self._sizes.get(digest) if digest in self.digests else None

    @cached_property
    def _sizes(self) -> dict[Digest, int]:
        read = {name: self._measured[name] for name in self._quantized & self._measured.keys()}
        sizes = {n: s.bytes_an_image for n, s in read.items() if s.dtype.kind == "f"}
        sizes = {n: size for n, size in sizes.items() if size <= self._limits.floats}
        return {self.graph.digests[name]: size for name, size in {**sizes, **self.keepable}.items()}

    @cached_property
    def _measured(self) -> Mapping[str, Size]:
        nodes = self.graph.proto.graph.node
        # An output that nothing reads is given, and nothing can start from it.
        read = {name for node in nodes for name in read_by(node)}
        names = [n for n in self.graph.dependent if n in read or n not in self.graph.outputs]
        return self._probe(self.graph, names)

    @cached_property
    def _quantized(self) -> set[str]:
        nodes = self.graph.proto.graph.node
        return {node.input[0] for node in nodes if node.op_type == "QuantizeLinear"}


def _bytes(batches: Sequence[Array]) -> int:
    return int(np.sum([batch.nbytes for batch in batches], dtype=np.int64))
