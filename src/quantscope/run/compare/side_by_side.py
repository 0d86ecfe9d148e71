"""Compare two quantized versions of one float network, tensor by tensor.

What the two have in common is the float tensor that each of theirs stands for: names, formats and
layers may differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quantscope.arithmetic import QuantParams
from quantscope.data import SamplesSource, samples_for
from quantscope.errors import BadConfigError
from quantscope.model import (
    Execution,
    Framework,
    Model,
    ModelSource,
    Network,
    Pairing,
    Role,
    find_original,
    open_model,
    pair_models,
    params_to_dict,
)
from quantscope.progress import Progress, silent
from quantscope.run.compare.compare import compare
from quantscope.run.compare.results import Comparison, TensorComparison

SCHEMA_VERSION = 2
"""2: what there is of each channel is there only where it is asked for."""

Which = Literal["first", "second"]


@dataclass(frozen=True, eq=False)
class VersionTensor:
    """One version's tensor: its parameters, and its error or why there is none to show."""

    name: str
    role: Role
    params: QuantParams
    error: TensorComparison | None
    reason: str | None = None

    @property
    def sqnr_db(self) -> float | None:
        return None if self.error is None else self.error.sqnr_db

    def to_dict(self, *, channels: bool = False) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "params": params_to_dict(self.params, full=channels),
            "error": None if self.error is None else self.error.to_dict(channels=channels),
            "reason": self.reason,
        }


@dataclass(frozen=True, eq=False)
class MatchedTensors:
    """The tensors that stand for the float tensor `float_name` in both versions."""

    float_name: str
    role: Role
    first: VersionTensor
    second: VersionTensor

    @property
    def same_parameters(self) -> bool:
        return self.first.params == self.second.params

    @property
    def sqnr_change_db(self) -> float | None:
        """The second's SQNR minus the first's, in dB; None where one is exact or not compared."""
        one, other = self.first.sqnr_db, self.second.sqnr_db
        return None if one is None or other is None else other - one

    def to_dict(self, *, channels: bool = False) -> dict[str, Any]:
        return {
            "float_name": self.float_name,
            "role": self.role,
            "same_parameters": self.same_parameters,
            "sqnr_change_db": self.sqnr_change_db,
            "first": self.first.to_dict(channels=channels),
            "second": self.second.to_dict(channels=channels),
        }


@dataclass(frozen=True, eq=False)
class OneSided:
    """A tensor that only one version has."""

    version: Which
    float_name: str | None
    tensor: VersionTensor
    reason: str

    def to_dict(self, *, channels: bool = False) -> dict[str, Any]:
        return {
            "version": self.version,
            "float_name": self.float_name,
            "reason": self.reason,
            "tensor": self.tensor.to_dict(channels=channels),
        }


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Two versions: `rows` along the first network, then what only one has, the first's first."""

    first: Comparison
    second: Comparison
    rows: tuple[MatchedTensors, ...]
    only_in_one: tuple[OneSided, ...]

    def to_dict(self, *, channels: bool = False) -> dict[str, Any]:
        """Give plain values; parameters and errors of each channel only if asked."""
        return {
            "schema_version": SCHEMA_VERSION,
            **{which: _facts(c) for which, c in (("first", self.first), ("second", self.second))},
            "rows": [row.to_dict(channels=channels) for row in self.rows],
            "only_in_one": [each.to_dict(channels=channels) for each in self.only_in_one],
        }


def compare_with(
    model: ModelSource,
    other: ModelSource,
    images: SamplesSource,
    *,
    float_model: ModelSource | None = None,
    other_float_model: ModelSource | None = None,
    execution: Execution = "reference",
    int8_kernels: bool | None = None,
    threads: int = 0,
    batch: int | None = None,
    progress: Progress = silent,
) -> SideBySide:
    """Compare both versions with the float network, on the same images, and match their tensors.

    One `float_model` serves both if it is of their kind (ONNX or PyTorch). A version of the other
    kind needs the same network in its own kind: `other_float_model`, or the one that it is known to
    be made from. None means the one that either is known to be made from.
    """
    models = open_model(model), open_model(other)
    images = samples_for(models[0], images)
    networks = tuple(each.network for each in models)
    originals = find_originals(models, (float_model, other_float_model))
    # Before the long work: versions of different networks are refused here.
    common = next((each for each in originals if each and each.framework == "onnx"), None)
    pairings: list[Pairing | None] = [
        None if common is None else pair_models(common, each) for each in models
    ]
    first, second = (
        compare(
            each,
            images,
            float_model=original,
            execution=execution,
            int8_kernels=each.own_int8_kernels(int8_kernels),
            threads=threads,
            batch=batch,
            progress=_named(progress, place),
        )
        for place, each, original in zip(("first", "second"), models, originals, strict=True)
    )
    found = zip(networks, (first, second), pairings, strict=True)
    sides = [_Side(network, comparison, pairing) for network, comparison, pairing in found]
    left_over = [*_left_over("first", *sides), *_left_over("second", *sides[::-1])]
    return SideBySide(first, second, tuple(_matched(*sides)), tuple(left_over))


def find_originals(
    models: Sequence[Model], given: Sequence[ModelSource | None]
) -> tuple[Model | None, ...]:
    """Find each version's float model; None where only `compare` knows it."""
    by_framework: dict[Framework, Model] = {}
    for source in given:
        if source is None:
            continue
        found = open_model(source)
        known = by_framework.setdefault(found.framework, found)
        if known.path != found.path:
            raise BadConfigError(
                f"{known.name} and {found.name} are two float models of one "
                f"kind; give one that both versions were made from"
            )
    if "onnx" not in by_framework:
        own = (find_original(model) for model in models if model.framework == "onnx")
        if (original := next(filter(None, own), None)) is not None:
            by_framework["onnx"] = original
    return tuple(by_framework.get(model.framework) for model in models)


def _named(progress: Progress, place: str) -> Progress:
    """Report the same progress with the version's place in its title."""

    def tell(what: str, done: int, total: int) -> None:
        progress(f"{what} the {place}", done, total)

    return tell


@dataclass(frozen=True, eq=False)
class _Side:
    """One version: its tensors by what they stand for in the float network."""

    network: Network
    comparison: Comparison
    pairing: Pairing | None

    def tensors(self) -> dict[tuple[Role, str], list[VersionTensor]]:
        found: dict[tuple[Role, str], list[VersionTensor]] = {}
        for name, float_name in self._float_names().items():
            tensor = self.tensor(name)
            found.setdefault((tensor.role, float_name), []).append(tensor)
        return found

    def without(self) -> Iterator[tuple[VersionTensor, str]]:
        """Give tensors that stand for nothing in the float network, and the reason."""
        known = self._float_names()
        reasons = {u.name: u.reason for u in self.pairing.unpaired} if self.pairing else {}
        for tensor in self.network.tensors:
            if tensor.name not in known:
                made = self.tensor(tensor.name)
                yield made, reasons.get(tensor.name) or made.reason or "nothing is known of it"

    def tensor(self, name: str) -> VersionTensor:
        tensor = self.network.tensor(name)
        error = next((t for t in self.comparison.tensors if t.name == name), None)
        missing = (*self.comparison.unpaired, *self.comparison.unseen)
        reason = next((t.reason for t in missing if t.name == name), None)
        return VersionTensor(name, tensor.role, tensor.params, error, reason)

    def _float_names(self) -> dict[str, str]:
        if self.pairing is not None:
            return {each.name: each.float_name for each in self.pairing.pairs}
        return {each.name: each.float_name for each in self.comparison.tensors}


def _matched(first: _Side, second: _Side) -> list[MatchedTensors]:
    others = second.tensors()
    return [
        MatchedTensors(float_name, role, one, other)
        for (role, float_name), tensors in first.tensors().items()
        # One version may quantize a float tensor more often: see `_left_over`.
        for one, other in zip(tensors, others.get((role, float_name), []), strict=False)
    ]


def _left_over(which: Which, side: _Side, other: _Side) -> Iterator[OneSided]:
    theirs, name = other.tensors(), other.network.path.name
    for (role, float_name), tensors in side.tensors().items():
        count = len(theirs.get((role, float_name), []))
        reason = f"{name} does not quantize {float_name}"
        if count:
            reason = f"{name} quantizes {float_name} {count} times, not {len(tensors)}"
        yield from (OneSided(which, float_name, tensor, reason) for tensor in tensors[count:])
    yield from (OneSided(which, None, tensor, reason) for tensor, reason in side.without())


def _facts(comparison: Comparison) -> dict[str, Any]:
    """Give all of a comparison but the tensors, which the rows hold."""
    found = comparison.to_dict()
    return {key: value for key, value in found.items() if key not in ("tensors", "unpaired")}
