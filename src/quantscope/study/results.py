"""The results of a study: rows against their baseline, as a table, CSV and JSON."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quantscope.files import write_whole
from quantscope.study.config import fits
from quantscope.study.folder import Row

EXECUTIONS = ("reference", "runtime")
PROVENANCE = ("float_model", "data", "threads", "cpu", "platform", "versions")
Interval = tuple[float, float]


@dataclass(frozen=True)
class Change:
    """A model against its float baseline in the same execution, image by image; fractions."""

    delta: float
    interval_95: Interval
    p_value: float
    gained: int
    lost: int
    changed: int
    class_changes: tuple[float | None, ...]
    worst_class: str | None
    worst_class_change: float | None
    confusion_change: tuple[tuple[int, ...], ...] = field(repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Change":
        return cls(
            **{
                **values,
                "interval_95": tuple(values["interval_95"]),
                "class_changes": tuple(values["class_changes"]),
                "confusion_change": tuple(map(tuple, values["confusion_change"])),
            }
        )


@dataclass(frozen=True)
class Measured:
    """One model in one execution. `change` is None for a baseline."""

    correct: int
    images: int
    accuracy: float
    interval_95: Interval
    loss: float | None
    not_finite: int
    classes: tuple[str, ...]
    class_correct: tuple[int, ...]
    class_total: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...] = field(repr=False)
    predictions: tuple[int, ...] = field(repr=False)
    change: Change | None

    def is_consistent(self) -> bool:
        """Say whether the numbers are of as many classes and images as they say."""
        classes = len(self.classes)
        tables = [self.class_correct, self.class_total, self.confusion, *self.confusion]
        if self.change is not None:
            tables += [self.change.class_changes, self.change.confusion_change]
            tables += self.change.confusion_change
        return len(self.predictions) == self.images > 0 and all(
            len(table) == classes for table in tables
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measured":
        own = dict(values)
        change = own.pop("delta")
        lists = ("interval_95", "classes", "class_correct", "class_total", "predictions")
        return cls(
            **own
            | {name: tuple(own[name]) for name in lists}
            | {"confusion": tuple(map(tuple, own["confusion"]))},
            change=Change.from_dict(change) if change else None,
        )


@dataclass(frozen=True)
class Gap:
    """Runtime minus reference; `changed` images are put into different classes."""

    delta: float
    interval_95: Interval
    p_value: float
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
            interval_95=tuple(values["interval_95"]),
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
        return self.baselines["onnxruntime"]

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
        return [_record(row) for row in self.rows]

    def to_csv(self) -> str:
        records = self.table()
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(records[0]) if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return buffer.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Give all in plain values but the predictions, which stay in each row's file."""
        return {
            "study": self.name,
            "baselines": {name: _without_images(row) for name, row in self.baselines.items()},
            "rows": [_without_images(row) for row in self.rows],
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
    facts = dict(row.facts)
    for execution in EXECUTIONS:
        if facts.get(execution):
            facts[execution] = {k: v for k, v in facts[execution].items() if k != "predictions"}
    return facts


def _record(row: StudyRow) -> dict[str, Any]:
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
        record |= _measured_record(execution, getattr(row, execution))
    gap = row.kernel_gap
    low, high = gap.interval_95 if gap else (None, None)
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


def _measured_record(execution: str, found: Measured | None) -> dict[str, Any]:
    change = found.change if found else None
    low, high = found.interval_95 if found else (None, None)
    delta_low, delta_high = change.interval_95 if change else (None, None)
    values = {
        "correct": found.correct if found else None,
        "images": found.images if found else None,
        "accuracy": found.accuracy if found else None,
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
