"""Take away what a tab shows: what gives its numbers again, its tables, its figures."""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from quantscope.app.mistake import mistake
from quantscope.app.panes.bits import found as found_bits
from quantscope.app.place import Given
from quantscope.app.reproduce import (
    Reproduction,
    Subject,
    answers,
    bits,
    comparison,
    diagnosis,
    effect,
    parameters,
    scores,
    sensitivities,
    sums,
)
from quantscope.app.session import CIFAR10_TEST, SAMPLE, Session
from quantscope.app.widgets import TakeMenu
from quantscope.errors import QuantscopeError
from quantscope.files import is_there
from quantscope.model import bundled_models, find_model
from quantscope.report.figures import png_bytes, svg_bytes

if TYPE_CHECKING:
    from quantscope.app.page import Page

_FORMATS = {"svg": (svg_bytes, "image/svg+xml"), "png": (png_bytes, "image/png")}


class TakeAway:
    """The menu of one page. What it lists is found when it is opened, so it is of what is shown."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.menu = TakeMenu()
        self.menu.on_msg(self._on_message)

    def close(self) -> None:
        self.menu.close()

    def _on_message(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if message.get("do") == "list":
            found = [one.to_dict() for one in reproductions(self.page)]
            name = Path(self.page.session.opened.name).stem
            self.menu.listed = {"n": message.get("n", 0), "items": found, "name": name}
        elif message.get("do") == "figure" and message.get("format") in _FORMATS:
            Thread(target=self._save, args=(message,), daemon=True).start()

    def _save(self, message: dict[str, Any]) -> None:
        """Draw a figure as it is in a report, with its title and note, as a file."""
        kind, asked = str(message["format"]), message.get("n", 0)
        write, mime = _FORMATS[kind]
        try:
            wanted = self.page.painter.find(str(message.get("id", "")))
            content = b64encode(write(wanted.draw())).decode()
            name = f"{Path(self.page.session.opened.name).stem}-{_slug(wanted.title)}.{kind}"
            self.menu.saved = {"n": asked, "name": name, "mime": mime, "content": content}
        except QuantscopeError as error:
            self.menu.saved = {"n": asked, "error": str(error)}
        # Nothing above this thread would see it, and the menu would wait.
        except Exception as error:
            self.menu.saved = {"n": asked, "error": mistake(error)}


def reproductions(page: "Page") -> list[Reproduction]:
    """List what gives the numbers of the page again: of the tab first, then the scores."""
    return [*_of_tab(page), *_scores(page.seen, page.given)]


def subject_of(session: Session, given: Given, count: int | None = None) -> Subject:
    """Give model and rows as they are typed; `count` rows of them, all where it is None."""
    opened, data, in_all = session.opened, given.data, session.full_count
    if session.is_bundled_sample:
        # All of CIFAR-10 is another set than the one that is taken unasked.
        data, in_all = (
            ("full", CIFAR10_TEST) if count == CIFAR10_TEST else ("", len(session.sample))
        )
    elif data and is_there(Path(data)):
        data = str(Path(data).absolute())
    counts = []
    if count is not None and count <= min(SAMPLE, in_all) < in_all:
        counts.append(SAMPLE)
    if count is not None and count < min(SAMPLE, in_all):
        counts.append(count)
    floats = given.float_model and _typed(find_model(given.float_model, must_exist=False))
    return Subject(
        model=_typed(opened.path),
        digest=opened.model.digest,
        float_model=floats,
        data=data,
        wishes=given.wishes,
        counts=tuple(counts),
        rows_in_all=in_all,
        measure=given.measure,
        lower_is_better=given.lower_is_better,
    )


def float_of(subject: Subject, session: Session) -> Subject:
    """Give the float model that is shown with the same rows; it is held against no other."""
    path, counted = session.opened.float_path, session.measured_by
    assert path is not None
    measure = "" if counted is not None and counted.needs_floats else subject.measure
    return replace(subject, model=_typed(path), digest="", float_model="", measure=measure)


def _of_tab(page: "Page") -> Iterator[Reproduction]:
    session, given, tab = page.seen, page.given, page.tabs.tab
    layer = page.selection.layer or ""
    compared, diagnosed = session.comparison, session.diagnosis
    if tab == "Diagnose" and diagnosed is not None:
        tries = any(finding.attempts for finding in diagnosed.findings)
        yield diagnosis(subject_of(session, given, diagnosed.images), tries=tries)
    if tab in ("Layer", "Network"):
        yield parameters(subject_of(session, given), layer if tab == "Layer" else "")
    if tab == "Residuals":
        yield sums(subject_of(session, given))
    if tab in ("Layer", "Network", "Residuals") and compared is not None:
        one = page.selection.tensor if tab == "Layer" else None
        if tab != "Layer" or session.find_comparison(one) is not None:
            about = subject_of(session, given, compared.images)
            yield comparison(about, session.compared_in, one or "")
    if tab == "Network" and session.sensitivity is not None:
        yield sensitivities(subject_of(session, given, session.sensitivity.images))
    if tab == "Samples" and (picked := page.samples.picked) is not None:
        about = subject_of(session, given, len(picked[0].images))
        yield answers(about, picked[1], session.opened.executions)
    answer = page.bench.answer
    if tab == "What if" and answer is not None and answer.edits and answer.images is not None:
        way = answer.way
        about = subject_of(session, given, len(answer.images))
        yield effect(about, answer.edits, way.execution, int8_kernels=way.int8_kernels)
    if tab == "Bits":
        for kind in ("map", "curves", "frontier"):
            if found_bits(session, kind) is not None:
                yield bits(subject_of(session, given, len(session.quick)), kind)


def _scores(session: Session, given: Given) -> Iterator[Reproduction]:
    if (known := session.accuracies) is not None:
        about = subject_of(session, given, len(known.images))
        yield scores(about, session.opened.executions)
        if session.opened.float_path is not None and known.float_ is not None:
            yield scores(float_of(about, session), ("reference",), "the float model's score")


def _typed(path: Path) -> str:
    """Write a model's path as a person types it: the name of a bundled one, else all of it."""
    whole = path.absolute()
    return next((n for n, known in bundled_models().items() if known == whole), str(whole))


def _slug(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title).strip("-.").lower()[:80] or "figure"
