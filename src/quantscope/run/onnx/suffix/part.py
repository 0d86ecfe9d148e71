"""Run parts of graphs over one set of samples.

The batches and the threads are those of a whole run, for the order of a sum can depend on them.
Where it does not (`pieces`), a batch of many samples is run in pieces, one a thread.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from quantscope.data import Intake, Samples, check_samples
from quantscope.errors import BadModelError
from quantscope.run.batches import cores, run_side_by_side
from quantscope.run.onnx.sessions import open_proto, run_session, session_of, session_options
from quantscope.run.onnx.suffix.graph import ValueGraph, submodel
from quantscope.run.onnx.suffix.kept import KeptValues, Size
from quantscope.run.onnx.suffix.pieces import may_split

Array = NDArray[Any]

_NUMPY_TYPES = {
    f"tensor({kind})": np.dtype({"float": "float32", "double": "float64"}.get(kind, kind))
    for kind in (
        *("bool", "double", "float", "float16"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
}


_ROWS = 64


class PartBatch(NamedTuple):
    """The values that a part ends in, for `rows` rows; only the first `samples` are samples."""

    values: dict[str, Array]
    rows: int
    samples: int


@dataclass(frozen=True)
class Part:
    """A session that computes `ends` from kept values, and from those of the graph's inputs that
    are `fed`.
    """

    graph: ValueGraph
    ends: tuple[str, ...]
    kept: Mapping[str, list[Array]]
    fed: tuple[str, ...]
    executed: int
    """The number of operators."""
    session: ort.InferenceSession

    @property
    def kept_bytes(self) -> int:
        return sum(batch.nbytes for batches in self.kept.values() for batch in batches)


class PartRunner:
    """Runs parts, keeps values. Graphs are run as they are, with optimizations off.

    `batch` is the size of whole batches.
    """

    def __init__(
        self,
        intake: Intake,
        stated: ValueGraph,
        samples: Samples,
        *,
        batch: int | None,
        threads: int,
        kept_bytes: int,
    ) -> None:
        check_samples(samples)
        intake.check_batch(batch)
        self.samples = samples
        self.kept = KeptValues(kept_bytes)
        self.intake = intake
        self.batch = whole = intake.fixed_batch or batch or intake.default_batch()
        # A batch that the file fixes, or a person asked for, is kept to.
        in_pieces = (
            intake.fixed_batch is None
            and batch is None
            and len(samples) > _ROWS
            and self._may_split(stated, whole, threads or cores())
        )
        self._side_by_side = (threads or cores()) if in_pieces else 1
        self._session_threads = 1 if in_pieces else threads
        self._pieces = tuple(_pieces(len(samples), whole, _ROWS if in_pieces else whole))

    def _may_split(self, stated: ValueGraph, whole: int, threads: int) -> bool:
        """Say whether pieces of the batches that occur, the last one too, give the same bits."""
        sizes = {
            min(whole, len(self.samples) - start) for start in range(0, len(self.samples), whole)
        }

        def opened(names: Sequence[str]) -> Callable[[int, int], dict[str, Array]]:
            probe = self._probe(stated, names)
            return lambda start, end: probe(self.samples.select(range(start, end)))[0]

        try:
            return may_split(stated, opened, batches=sizes, threads=threads)
        except BadModelError:  # a model that does not take any number of images
            return False

    def stored(self, graph: ValueGraph) -> set[str]:
        """Name the graph's values that are kept."""
        return {name for name in graph.dependent if graph.digests[name] in self.kept}

    def part(self, graph: ValueGraph, starts: Collection[str], ends: Sequence[str]) -> Part:
        """Open a part; `starts` are kept values, perhaps with some of the graph's inputs."""
        kept = {n: self.kept[graph.digests[n]] for n in starts if n not in graph.inputs}
        model = submodel(graph, {name: values[0].dtype for name, values in kept.items()}, ends)
        return Part(
            graph=graph,
            ends=tuple(dict.fromkeys(ends)),
            kept=kept,
            fed=tuple(v.name for v in model.graph.input if v.name in graph.inputs),
            executed=len(model.graph.node),
            session=session_of(model, "reference", threads=self._session_threads),
        )

    def run(
        self,
        part: Part,
        keep: Collection[str] = (),
        *,
        spare: Collection[str] = (),
        given: Iterable[Mapping[str, Array]] = repeat({}),
    ) -> Iterator[PartBatch]:
        """Run batch by batch; the values `keep` are kept when the last was taken, `spare` among
        them only until others are asked for. `given` are further inputs, for each batch.
        """
        found: dict[str, list[Array]] = {name: [] for name in keep}
        batches = zip(self._feeds(part), given, strict=False)
        done = run_side_by_side(
            lambda batch: self._values(part.session, part.ends, {**batch[0][0], **batch[1]}),
            batches,
            threads=self._side_by_side,
        )
        for ((_, rows, count), _), values in done:
            for name, kept in found.items():
                # onnxruntime's own array would hold on to all memory of its session.
                kept.append(values[name].copy())
            yield PartBatch(values, rows, count)
        for name, kept in found.items():
            self.kept.put(part.graph.digests[name], kept, spare=name in spare)

    def _feeds(self, part: Part) -> Iterator[tuple[dict[str, Array], int, int]]:
        batches = self.intake.pieces(self.samples, self._pieces)
        least = self.intake.fixed_batch or self.intake.least
        for number, (start, end) in enumerate(self._pieces):
            feeds = {name: kept[number] for name, kept in part.kept.items()}
            if part.fed:
                given = dict(zip(part.graph.inputs, next(batches).feeds.values(), strict=True))
                feeds |= {name: given[name] for name in part.fed}
            yield feeds, max(least, end - start), end - start

    def sizes(self, graph: ValueGraph, names: Sequence[str]) -> dict[str, Size]:
        """Measure the values that can be given out as arrays.

        Where onnxruntime knows their shapes nothing is run; else two samples are.
        """
        if not names:
            return {}
        options = session_options("reference", threads=1)
        # Nothing is run here, so no weights need be laid out for it.
        options.add_session_config_entry("session.disable_prepacking", "1")
        session = open_proto(submodel(graph, {}, names), options)
        stated = self._stated(session)
        found = {name: size for name, size in stated.items() if size is not None}
        unknown = [name for name in names if name in stated and stated[name] is None]
        if unknown:
            few = self.samples.select(range(min(2, len(self.samples))))
            values, rows = self._probe(graph, unknown)(few)
            found |= {name: Size(-(-v.nbytes // rows), v.dtype) for name, v in values.items()}
        return {name: found[name] for name in names if name in found}

    def _stated(self, session: ort.InferenceSession) -> dict[str, Size | None]:
        """Give the sizes of a session's outputs by their shapes; None where these are not known."""
        firsts = {value.shape[0] for value in session.get_inputs() if value.shape}
        batch = self.intake.fixed_batch
        found: dict[str, Size | None] = {}
        for value in session.get_outputs():
            dtype = _NUMPY_TYPES.get(value.type)
            if dtype is None:
                continue
            open_sizes = [size for size in value.shape if not isinstance(size, int)]
            if not open_sizes and batch is not None:
                found[value.name] = Size(-(-prod(value.shape) * dtype.itemsize // batch), dtype)
            elif open_sizes and open_sizes[0] and {*open_sizes} == firsts and len(open_sizes) == 1:
                row = prod(size for size in value.shape if isinstance(size, int))
                found[value.name] = Size(row * dtype.itemsize, dtype)
            else:
                found[value.name] = None
        return found

    def _probe(
        self, graph: ValueGraph, names: Sequence[str]
    ) -> Callable[[Samples], tuple[dict[str, Array], int]]:
        """Give a function from a few samples to the values that can be arrays, and their rows."""
        session = session_of(submodel(graph, {}, names), "reference", threads=1)
        fed = [value.name for value in session.get_inputs()]
        types = {value.name: value.type for value in session.get_outputs()}
        asked = [name for name in names if types[name] in _NUMPY_TYPES]

        def probe(few: Samples) -> tuple[dict[str, Array], int]:
            batch = next(self.intake.batches(few))
            given = dict(zip(graph.inputs, batch.feeds.values(), strict=True))
            return self._values(session, asked, {n: given[n] for n in fed}), batch.rows

        return probe

    def _values(
        self, session: ort.InferenceSession, names: Sequence[str], feeds: Mapping[str, Array]
    ) -> dict[str, Array]:
        found = run_session(session, names, feeds, self.intake.model)
        return dict(zip(names, found, strict=True))


def _pieces(samples: int, batch: int, most: int) -> Iterator[tuple[int, int]]:
    """Give the ends of pieces, batch after batch, each in even pieces of at most so many."""
    for start in range(0, samples, batch):
        size = min(batch, samples - start)
        count = -(-size // most)
        for piece in range(count):
            yield start + size * piece // count, start + size * (piece + 1) // count
