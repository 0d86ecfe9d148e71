"""A study's folder: one file a row, written whole, for one model and one set of images."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantscope.data.lock import locked
from quantscope.errors import BadDataError, QuantscopeError
from quantscope.files import refuse_source, refuse_to_remove, remove_leftovers, write_whole

Row = dict[str, Any]
MANIFEST = "study.json"
WRITTEN = (MANIFEST, "results.csv", "results.json", "report.md", "report.html")
"""What a study writes into its folder, beside rows and figures."""


@dataclass(frozen=True)
class Subject:
    """What a study is of. Two with different digests do not share a folder."""

    name: str
    digest: str | None
    """None where there is none; a later run may bring one."""


@dataclass(frozen=True)
class StudyFolder:
    """Only what is in `rows` counts as done."""

    path: Path

    @property
    def scratch(self) -> Path:
        """For what worker processes write on their way; emptied when the folder is opened."""
        return self.path / ".scratch"

    def rows(self) -> dict[str, Row]:
        """Every finished row by its key. A file that cannot be read counts as not there."""
        found = {}
        for file in sorted((self.path / "rows").glob("*.json")):
            try:
                row = json.loads(file.read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(row, dict) and row.get("key") == file.stem:
                found[file.stem] = row
        return found

    def write_row(self, row: Row) -> None:
        text = json.dumps(row, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
        write_whole(self.path / "rows" / f"{row['key']}.json", text.encode())


@contextmanager
def open_folder(path: Path, subjects: Mapping[str, Subject]) -> Iterator[StudyFolder]:
    """Make or go on with the study in `path`, and keep other processes out of it meanwhile."""
    if path.exists() and not path.is_dir():
        raise QuantscopeError(f"{path} is a file; give a folder for the study's results")
    if path.is_dir() and not (path / MANIFEST).exists() and _holds_anything(path):
        raise QuantscopeError(
            f"{path} is not empty and holds no study; give a new or an empty folder"
        )
    refuse_to_remove(StudyFolder(path).scratch)
    for name in WRITTEN:
        refuse_source(path / name)
    with ExitStack() as held:
        try:
            (path / "rows").mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(path))
        except OSError as error:
            raise QuantscopeError(f"Cannot write into {path}: {error.strerror}") from None
        except BadDataError:
            raise QuantscopeError(
                f"Another study is running in {path}; wait for it to finish"
            ) from None
        folder = StudyFolder(path)
        _settle(folder, subjects)
        _remove_leftovers(folder)
        folder.scratch.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder.scratch, ignore_errors=True)


def _holds_anything(path: Path) -> bool:
    # What a study that was stopped before its first line leaves behind is not somebody's.
    ours = {".lock", "rows"}
    names = set(os.listdir(path))  # noqa: PTH208
    return bool(names - ours) or any((path / "rows").glob("*"))


def _remove_leftovers(folder: StudyFolder) -> None:
    """Remove what a killed study was in the middle of writing."""
    shutil.rmtree(folder.scratch, ignore_errors=True)
    for part in (folder.path, folder.path / "rows", folder.path / "figures"):
        remove_leftovers(part)


def _settle(folder: StudyFolder, subjects: Mapping[str, Subject]) -> None:
    """Check that the folder's study is of these subjects, and note those that are new."""
    manifest = folder.path / MANIFEST
    known: dict[str, Any] = {}
    if manifest.exists():
        try:
            known = dict(json.loads(manifest.read_bytes())["of"])
        except (OSError, ValueError, KeyError, TypeError):
            raise QuantscopeError(
                f"{manifest} cannot be read; give a new folder for the study"
            ) from None
    for what, subject in subjects.items():
        found = known.get(what)
        if not found or subject.digest is None:
            continue
        if found["digest"] not in (None, subject.digest):
            raise QuantscopeError(
                f"{folder.path} holds a study of another {what}: {found['name']} "
                f"({found['digest'][:12]}), not {subject.name} ({subject.digest[:12]}); "
                "give another folder"
            )
    fresh = {
        what: {"name": s.name, "digest": s.digest}
        for what, s in subjects.items()
        if s.digest is not None
    }
    content = json.dumps({"quantscope_study": 1, "of": known | fresh}, indent=2)
    write_whole(manifest, content.encode())
