"""The results of a study: rows against their baseline, as a table, CSV and JSON."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from quantscope.errors import BadDataError
from quantscope.files import write_whole
from quantscope.run import MEASURES, Score, ScoreDelta
from quantscope.study.config import fits
from quantscope.study.folder import Row

EXECUTIONS = ("reference", "runtime")
_BY_SAMPLE = ("predictions", "per_sample")
PROVENANCE = ("float_model", "data", "threads", "cpu", "platform", "versions")
Interval = tuple[float, float]


_ACCURACY = MEASURES["top1"].name


@dataclass(frozen=True)
class StudyScore:
    """The score of a model, as `Score` says; `value` is None where it has no number.

    The float model itself has none by a measure that compares with it.
    """

    measure: str
    unit: str
    higher_is_better: bool
    value: float | None
    interval_95: Interval | None
    interval_of: str | None
    samples: int

    @property
    def is_accuracy(self) -> bool:
        return self.measure == _ACCURACY

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        ends = values["interval_95"]
        return cls(**{**values, "interval_95": None if ends is None else tuple(ends)})


@dataclass(frozen=True)
class Change:
    """A model against another one in the same execution, sample by sample; shares are fractions.

    `gained` and `lost` count the samples for which it is better and worse. What is said of classes
    is empty where there are none.
    """

    delta: float
    interval_95: Interval
    p_value: float
    gained: int
    lost: int
    changed: int
    class_changes: tuple[float | None, ...] = ()
    worst_class: str | None = None
    worst_class_change: float | None = None
    confusion_change: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    interval_of: str = "Newcombe, paired"
    p_of: str = "McNemar exact"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            **{
                **values,
                "interval_95": tuple(values["interval_95"]),
                "class_changes": tuple(values["class_changes"]),
                "confusion_change": tuple(map(tuple, values["confusion_change"])),
            }
        )


@dataclass(frozen=True)
class Counted:
    """The counts of a classifier with labels."""

    correct: int
    accuracy: float
    interval_95: Interval
    classes: tuple[str, ...]
    class_correct: tuple[int, ...]
    class_total: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...] = field(repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self | None:
        if values["correct"] is None:
            return None
        lists = ("interval_95", "classes", "class_correct", "class_total")
        return cls(
            correct=values["correct"],
            accuracy=values["accuracy"],
            confusion=tuple(map(tuple, values["confusion"])),
            **{name: tuple(values[name]) for name in lists},
        )


@dataclass(frozen=True)
class Measured:
    """One model in one execution.

    `counted` is None where there are no labels or no classes, `predictions` are empty where there
    are no classes, `change` from the float model is None where that has no score of its own: for
    the float model, and by measures that compare with it. `per_sample` has the numbers of other
    measures than right or wrong; None stands for a sample that has none.
    """

    score: StudyScore
    images: int
    loss: float | None
    not_finite: int
    counted: Counted | None
    predictions: tuple[int, ...] = field(repr=False)
    per_sample: tuple[float | None, ...] = field(repr=False)
    change: Change | None
    sample_word: str = "image"

    @property
    def is_accuracy(self) -> bool:
        return self.score.is_accuracy

    @property
    def correct(self) -> int:
        return self._counted.correct

    @property
    def accuracy(self) -> float:
        return self._counted.accuracy

    @property
    def interval_95(self) -> Interval:
        """The interval of the accuracy."""
        return self._counted.interval_95

    @property
    def classes(self) -> tuple[str, ...]:
        return self._counted.classes

    @property
    def class_correct(self) -> tuple[int, ...]:
        return self._counted.class_correct

    @property
    def class_total(self) -> tuple[int, ...]:
        return self._counted.class_total

    @property
    def confusion(self) -> tuple[tuple[int, ...], ...]:
        return self._counted.confusion

    @property
    def _counted(self) -> Counted:
        if self.counted is None:
            raise BadDataError(
                f"Measured by {self.score.measure}, without labels: nothing is right or wrong"
            )
        return self.counted

    def minus(self, other: "Measured") -> Change | None:
        """Compare with another one, sample by sample; None where nothing can be compared."""
        if not (self.per_sample and len(self.per_sample) == len(other.per_sample)):
            return None
        delta = ScoreDelta(self._score, other._score, np.arange(len(self.per_sample)))
        if delta.interval_95 is None or delta.p_value is None:
            return None
        return Change(
            delta=delta.delta,
            interval_95=delta.interval_95,
            p_value=delta.p_value,
            gained=len(delta.better),
            lost=len(delta.worse),
            changed=len(delta.better) + len(delta.worse),
            interval_of=delta.interval_of,
            p_of=delta.p_of,
        )

    @cached_property
    def _score(self) -> Score:
        numbers = [math.nan if value is None else value for value in self.per_sample]
        said = self.score
        return Score(said.measure, said.unit, said.higher_is_better, np.array(numbers))

    def is_consistent(self) -> bool:
        """Say whether the numbers are of as many classes and samples as they say."""
        tables: list[tuple[Any, ...]] = []
        classes = 0
        if self.counted is not None:
            counted = self.counted
            classes = len(counted.classes)
            tables = [counted.class_correct, counted.class_total]
            tables += [counted.confusion, *counted.confusion]
        if self.change is not None and (self.counted is None or self.change.class_changes):
            tables += [self.change.class_changes, self.change.confusion_change]
            tables += self.change.confusion_change
        of_samples = [kept for kept in (self.predictions, self.per_sample) if kept]
        return (
            self.images > 0
            and (bool(of_samples) or self.score.value is None)
            and all(len(kept) == self.images for kept in of_samples)
            and (self.is_accuracy <= (self.counted is not None and bool(self.predictions)))
            and all(len(table) == classes for table in tables)
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        counted, change = Counted.from_dict(values), values["delta"]
        return cls(
            score=StudyScore.from_dict(values.get("score") or _accuracy_score(values)),
            images=values["images"],
            loss=values["loss"],
            not_finite=values["not_finite"] or 0,
            counted=counted,
            predictions=tuple(values["predictions"] or ()),
            per_sample=tuple(values.get("per_sample") or ()),
            change=Change.from_dict(change) if change else None,
            sample_word=values.get("sample_word", "image"),
        )


def _accuracy_score(values: Mapping[str, Any]) -> dict[str, Any]:
    """Say what rows mean that were written before there was another measure."""
    return {
        "measure": _ACCURACY,
        "unit": MEASURES["top1"].unit,
        "higher_is_better": True,
        "value": values["accuracy"],
        "interval_95": values["interval_95"],
        "interval_of": "Wilson",
        "samples": values["images"],
    }


@dataclass(frozen=True)
class Gap:
    """Runtime minus reference; `changed` samples are of another class, or have another score.

    `delta`, its interval and p are None where too few samples have a number.
    """

    delta: float | None
    interval_95: Interval | None
    p_value: float | None
    is_real: bool
    changed: int
    explanation: str | None
    integer_layers: int
    computing_layers: int

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Gap":
        kernels = values["kernel_map"]
        names = ("delta", "p_value", "is_real", "changed", "explanation")
        return cls(
            **{name: values[name] for name in names},
            interval_95=None if values["interval_95"] is None else tuple(values["interval_95"]),
            integer_layers=kernels["integer_layers"],
            computing_layers=kernels["computing_layers"],
        )


@dataclass(frozen=True)
class StudyRow:
    """A configuration and what came of it. When `reason` is given, nothing was measured."""

    key: str
    label: str
    config: Mapping[str, Any]
    reason: str | None
    seconds: float | None
    reference: Measured | None = None
    runtime: Measured | None = None
    kernel_gap: Gap | None = None
    size_bytes: int | None = None
    facts: Row = field(default_factory=dict, repr=False)
    """The row as it is on disk."""

    @property
    def failed(self) -> bool:
        return self.reason is not None

    def executions(self) -> dict[str, Measured]:
        """Give the executions that were measured, by name."""
        both = {"reference": self.reference, "runtime": self.runtime}
        return {name: found for name, found in both.items() if found}

    @classmethod
    def from_dict(cls, row: Row) -> "StudyRow":
        """Read a row; raise `ValueError` if it lacks anything that a study writes."""
        try:
            found = cls._from_dict(row)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it lacks what a study writes ({error})") from None
        if not fits(found, cls) or not found._is_whole():
            raise ValueError("it holds something else than a study writes")
        return found

    def _is_whole(self) -> bool:
        """Say whether it names where it comes from, and its numbers are of the same classes."""
        if self.failed:
            return not self.executions()
        facts = self.facts.get("provenance")
        return (
            isinstance(facts, dict)
            and facts.keys() >= set(PROVENANCE)
            and fits(facts["float_model"].get("name"), str)
            and self.reference is not None
            and all(found.is_consistent() for found in self.executions().values())
        )

    @classmethod
    def _from_dict(cls, row: Row) -> "StudyRow":
        reference, runtime, gap = (row.get(n) for n in (*EXECUTIONS, "kernel_gap"))
        return cls(
            key=row["key"],
            label=row["label"],
            config=row["config"],
            reason=row["reason"] if row["status"] == "failed" else None,
            seconds=row["seconds"],
            reference=Measured.from_dict(reference) if reference else None,
            runtime=Measured.from_dict(runtime) if runtime else None,
            kernel_gap=Gap.from_dict(gap) if gap else None,
            size_bytes=row.get("size_bytes"),
            facts=row,
        )


@dataclass(frozen=True)
class StudyResult:
    """The rows of a study; `baselines` are the float models' rows by framework.

    `skipped` says what a grid could not have.
    """

    name: str
    rows: tuple[StudyRow, ...]
    baselines: Mapping[str, StudyRow]
    skipped: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    """The names that damaged rows were given; those that the plan needs are done again."""

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Row],
        *,
        baselines: Mapping[Any, Row],
        name: str,
        skipped: tuple[str, ...] = (),
        damaged: tuple[str, ...] = (),
    ) -> "StudyResult":
        return cls(
            name=name,
            rows=tuple(map(StudyRow.from_dict, rows)),
            baselines={key: StudyRow.from_dict(row) for key, row in baselines.items()},
            skipped=skipped,
            damaged=damaged,
        )

    @property
    def measured(self) -> tuple[StudyRow, ...]:
        return tuple(row for row in self.rows if row.reference)

    @property
    def failed(self) -> tuple[StudyRow, ...]:
        return tuple(row for row in self.rows if row.failed)

    @property
    def baseline(self) -> StudyRow:
        """The row of the float model that the study is of; onnxruntime's where there are two."""
        return self.baselines.get("onnxruntime") or next(iter(self.baselines.values()))

    @property
    def score(self) -> StudyScore:
        """The measure of all rows, with the float model's number if it has one."""
        found = self.baseline.reference
        assert found is not None, "a baseline that failed is no study"
        return found.score

    @property
    def has_float_score(self) -> bool:
        """Say whether the float model has a score itself, that the rows are compared with."""
        return self.score.value is not None

    @cached_property
    def best(self) -> StudyRow | None:
        """The configuration with the best score by reference; None where nothing was measured."""
        return max(self.measured, key=self.merit, default=None)

    def merit(self, row: StudyRow) -> float:
        """Give a number that is larger for a better row, by reference; the worst without a score.

        It is the change from that row's own float model where that has a score.
        """
        found = row.reference
        if found is None or found.score.value is None:
            return -math.inf
        value = found.change.delta if found.change else found.score.value
        return value if found.score.higher_is_better else -value

    def change_of(self, row: StudyRow, execution: str = "reference") -> Change | None:
        """Compare a row with the float model, or with the best row where that has no score."""
        found = row.executions().get(execution)
        if found is None or self.has_float_score:
            return None if found is None else found.change
        best = self.best.executions().get(execution) if self.best else None
        return None if best is None or row is self.best else found.minus(best)

    def baseline_of(self, row: StudyRow) -> StudyRow:
        return self.baselines[row.config["framework"]]

    @property
    def provenance(self) -> dict[str, Any]:
        """The values that occur among the rows: more than one where a study was continued
        elsewhere or with other versions."""
        found: dict[str, Any] = {}
        for row in (*self.baselines.values(), *self.measured):
            facts = row.facts["provenance"]
            for name in PROVENANCE:
                values = found.setdefault(name, [])
                if facts[name] not in values:
                    values.append(facts[name])
        return found

    def table(self) -> list[dict[str, Any]]:
        """Give one flat record a row, the same columns in each; None where there is nothing."""
        return [_record(row, self) for row in self.rows]

    def to_csv(self) -> str:
        records = self.table()
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(records[0]) if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return buffer.getvalue()

    def _row_dict(self, row: StudyRow) -> dict[str, Any]:
        """Give a row as it is on disk, and what it is against the best one where that counts."""
        facts = _without_images(row)
        if self.has_float_score:
            return facts
        for execution in row.executions():
            change = self.change_of(row, execution)
            facts[execution]["against_best"] = None if change is None else _pair_dict(change)
        return facts

    def to_dict(self) -> dict[str, Any]:
        """Give all in plain values but what is of each sample, which stays in each row's file."""
        against = "the float model" if self.has_float_score else "the best configuration"
        return {
            "study": self.name,
            "measure": {
                "name": self.score.measure,
                "unit": self.score.unit,
                "higher_is_better": self.score.higher_is_better,
                "compared_with": against,
                "best": self.best.key if self.best else None,
            },
            "baselines": {name: _without_images(row) for name, row in self.baselines.items()},
            "rows": [self._row_dict(row) for row in self.rows],
            "skipped": list(self.skipped),
            "damaged": list(self.damaged),
            "provenance": self.provenance,
        }


def write_results(result: StudyResult, folder: Path) -> None:
    """Write `results.csv` and `results.json`."""
    write_whole(folder / "results.csv", result.to_csv().encode())
    text = json.dumps(result.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(folder / "results.json", text.encode())


def _without_images(row: StudyRow) -> Row:
    facts = {name: value for name, value in row.facts.items() if name != "by_sample"}
    for execution in EXECUTIONS:
        if facts.get(execution):
            own = {k: v for k, v in facts[execution].items() if k not in _BY_SAMPLE}
            facts[execution] = own
    return facts


def _pair_dict(change: Change) -> dict[str, Any]:
    names = ("delta", "interval_of", "p_value", "p_of", "gained", "lost")
    own: dict[str, Any] = {name: getattr(change, name) for name in names}
    return own | {"interval_95": list(change.interval_95)}


def _record(row: StudyRow, result: StudyResult) -> dict[str, Any]:
    record: dict[str, Any] = {
        "key": row.key,
        "label": row.label,
        "status": "failed" if row.failed else "done",
        "reason": row.reason,
    }
    record |= {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in row.config.items()
    }
    for execution in EXECUTIONS:
        change = result.change_of(row, execution)
        record |= _measured_record(execution, getattr(row, execution), change)
    gap = row.kernel_gap
    low, high = _ends(gap.interval_95 if gap else None)
    return record | {
        "kernel_gap": gap.delta if gap else None,
        "kernel_gap_low": low,
        "kernel_gap_high": high,
        "kernel_gap_p": gap.p_value if gap else None,
        "kernel_gap_images": gap.changed if gap else None,
        "integer_layers": gap.integer_layers if gap else None,
        "computing_layers": gap.computing_layers if gap else None,
        "size_bytes": row.size_bytes,
        "model_digest": row.facts.get("model_digest"),
        "seconds": row.seconds,
    }


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else interval


def _measured_record(
    execution: str, found: Measured | None, change: Change | None
) -> dict[str, Any]:
    counted, scored = found and found.counted, found and found.score
    score_low, score_high = _ends(scored.interval_95 if scored else None)
    low, high = _ends(counted.interval_95 if counted else None)
    delta_low, delta_high = _ends(change.interval_95 if change else None)
    values = {
        "measure": scored.measure if scored else None,
        "unit": scored.unit if scored else None,
        "score": scored.value if scored else None,
        "score_low": score_low,
        "score_high": score_high,
        "correct": counted.correct if counted else None,
        "images": found.images if found else None,
        "accuracy": counted.accuracy if counted else None,
        "accuracy_low": low,
        "accuracy_high": high,
        "delta": change.delta if change else None,
        "delta_low": delta_low,
        "delta_high": delta_high,
        "p": change.p_value if change else None,
        "worst_class": change.worst_class if change else None,
        "worst_class_change": change.worst_class_change if change else None,
    }
    return {f"{execution}_{name}": value for name, value in values.items()}
