"""Keep a study's folder: one file a row, written whole, of one model and one set of images."""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quantscope.data import LOCK, locked
from quantscope.errors import BadDataError, QuantscopeError
from quantscope.files import (
    check_output,
    is_folder,
    is_there,
    parse_json,
    read_bytes,
    read_json,
    refuse_source,
    refuse_to_remove,
    remove_leftovers,
    write_whole,
)
from quantscope.study.config import fits

Row = dict[str, Any]
_MOST_BYTES = 16 * 2**20
"""The limit of a row's file; one with the predictions for 50,000 images takes half a megabyte."""

MANIFEST = "study.json"
WRITTEN = (MANIFEST, "results.csv", "results.json", "report.md", "report.html")
"""The files that a study writes into its folder, beside rows and figures."""


@dataclass(frozen=True)
class Subject:
    """The model or data that a study is of. Two with different digests do not share a folder."""

    name: str
    digest: str | None
    """The sha256; None where there is no such subject, which a later run may bring."""


@dataclass(frozen=True)
class StudyFolder:
    """A folder of rows; only what is in `rows` counts as done.

    `check` raises `ValueError` for a row that lacks anything. Such rows, and files that are no rows
    at all, were set aside when the folder was opened: `damaged` are the names that they have now.
    """

    path: Path
    check: Callable[[Row], object] = dict
    damaged: list[str] = field(default_factory=list)

    @property
    def scratch(self) -> Path:
        """The folder for what workers write on their way; emptied when the study is opened."""
        return self.path / ".scratch"

    def rows(self) -> dict[str, Row]:
        """Read every finished row, by its key; what is no row counts as not there."""
        found = {}
        for file in self._row_files():
            with suppress(ValueError):
                found[file.stem] = self._read(file)
        return found

    def write_row(self, row: Row) -> None:
        text = json.dumps(row, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
        write_whole(self.path / "rows" / f"{row['key']}.json", text.encode())

    def set_aside(self, key: str) -> None:
        """Give a row another name, so that its job runs again and nothing is lost."""
        file = self.path / "rows" / f"{key}.json"
        for number in itertools.count(1):
            aside = file.with_name(f"{file.name}.damaged-{number}")
            if not is_there(aside):
                break
        try:
            file.rename(aside)
        except OSError as error:
            raise QuantscopeError(f"Cannot move {file} aside: {error.strerror}") from None
        self.damaged.append(str(aside.relative_to(self.path)))

    def set_damaged_aside(self) -> None:
        for file in self._row_files():
            try:
                self._read(file)
            except ValueError:
                self.set_aside(file.stem)

    def _row_files(self) -> list[Path]:
        folder = self.path / "rows"
        try:
            return sorted(file for file in folder.iterdir() if _is_row_name(file.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise QuantscopeError(f"Cannot read {folder}: {error.strerror}") from None

    def _read(self, file: Path) -> Row:
        content = read_bytes(file, "a study's row", most_bytes=_MOST_BYTES, own=True)
        row = parse_json(content)
        if not isinstance(row, dict) or row.get("key") != file.stem:
            raise ValueError("it is of another job")
        if not _is_head(row):
            raise ValueError("it does not say what it is of")
        self.check(row)
        return row


def _is_row_name(name: str) -> bool:
    # What is being written has a name that begins with a dot, and may be gone the next moment.
    return name.endswith(".json") and not name.startswith(".")


def _is_head(row: Row) -> bool:
    return (
        isinstance(row.get("label"), str)
        and isinstance(row.get("config"), dict)
        and row.get("status") in ("done", "failed")
        and (isinstance(row.get("reason"), str) or row.get("status") == "done")
    )


@contextmanager
def open_folder(
    path: Path, subjects: Mapping[str, Subject], *, check: Callable[[Row], object] = dict
) -> Iterator[StudyFolder]:
    """Make or go on with the study in `path`, and keep other processes out of it meanwhile."""
    _check_ours(path)
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
        folder = StudyFolder(path, check)
        _settle(folder, subjects)
        _remove_leftovers(folder)
        folder.set_damaged_aside()
        folder.scratch.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder.scratch, ignore_errors=True)


def _check_ours(path: Path) -> None:
    """Raise unless the folder is new, empty or a study's, and all that is written has its place."""
    if not is_there(path):
        return
    if not is_folder(path):
        raise QuantscopeError(f"{path} is not a folder; give one for the study's results")
    try:
        is_other = not is_there(path / MANIFEST) and _holds_anything(path)
    except OSError as error:
        raise QuantscopeError(f"Cannot read {path}: {error.strerror}") from None
    if is_other:
        raise QuantscopeError(
            f"{path} is not empty and holds no study; give a new or an empty folder"
        )
    for name in ("rows", "figures", StudyFolder(path).scratch.name):
        if is_there(path / name) and ((path / name).is_symlink() or not is_folder(path / name)):
            raise QuantscopeError(f"{path / name} is not a folder as in a study; move it elsewhere")
    for name in WRITTEN:
        check_output(path / name)


def _holds_anything(path: Path) -> bool:
    # What a study that was stopped before its first line leaves behind is not somebody's.
    ours = {LOCK, "rows"}
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
    known: Any = {}
    if is_there(manifest):
        wanted = "a new folder for the study"
        content = read_json(manifest, wanted, kind=QuantscopeError, own=True)
        known = content.get("of") if isinstance(content, dict) else None
        if not fits(known, dict[str, dict[str, str | None]]):
            raise QuantscopeError(f"{manifest} does not say what the study is of; give {wanted}")
    for what, subject in subjects.items():
        found = known.get(what)
        if not found or subject.digest is None:
            continue
        if (digest := found.get("digest")) not in (None, subject.digest):
            raise QuantscopeError(
                f"{folder.path} holds a study of another {what}: {found.get('name')} "
                f"({str(digest)[:12]}), not {subject.name} ({subject.digest[:12]}); "
                "give another folder"
            )
    fresh = {
        what: {"name": s.name, "digest": s.digest}
        for what, s in subjects.items()
        if s.digest is not None
    }
    content = json.dumps({"quantscope_study": 1, "of": known | fresh}, indent=2)
    write_whole(manifest, content.encode())
