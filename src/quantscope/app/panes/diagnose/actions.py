"""Do what the buttons of the Diagnose tab ask for."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import marimo as mo

from quantscope.app.panes.diagnose.pane import pane_html
from quantscope.app.panes.kernel_line import cure_edits
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.cure import CURES, Readings
from quantscope.data import Samples, calibration_set
from quantscope.diagnose import Remedy, remedy_config
from quantscope.edit import Edit, EditedRole, OffRole
from quantscope.errors import QuantscopeError, StoppedError
from quantscope.progress import Progress

if TYPE_CHECKING:
    from quantscope.app.page import Page

TAB = "Diagnose"
_EDITED, _QUANTIZED = "What if", "Quantize"


class Doctor:
    """The Diagnose pane of one page; the answers themselves are the session's."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self._said = self._found = ""

    def show(self, selection: Selection) -> mo.Html:
        page, said = self.page, (self._said, self._found)
        return pane_html(page.session, selection, page.edited, said=said)

    def asked(self, message: dict[str, Any]) -> None:
        """Do what a button asks for; what cannot be done is a line of the pane."""
        self._said = self._found = ""
        try:
            if message.get("do") == "try-all":
                self.page.work_first(self.page.session.try_remedies)
            elif message.get("do") == "off-role" and message.get("role") in (
                "weights",
                "activations",
            ):
                self._put((OffRole(cast(EditedRole, message["role"])),))
            elif message.get("do") == "cure" and message.get("kind") in CURES:
                self.page.work_first(partial(self._cure, message["kind"]))
            elif message.get("do") == "remedy":
                self._take(self._remedy(message))
            elif message.get("do") == "kernels":
                self._help_kernels(message.get("how", ""))
        except QuantscopeError as error:
            self._said = str(error)
            self.page.tabs.tab = TAB  # the head asks from every tab, and the line is here
        self.page.numbers_news()

    def _cure(self, kind: str, progress: Progress) -> Iterator[None]:
        """Find the edits of a cure on calibration samples and put them in force, in a thread."""
        page, before = self.page, self.page.edits
        try:
            readings = Readings(page.bench.editor, calibration_for(page.session))
            found = CURES[kind](readings, readings.samples, edits=before, progress=progress)
            if page.edits == before:
                self._put(found.edits)
                self._found = f"{found.explanation}."
            else:
                self._said = "Other edits are in force by now; take the cure again"
        except StoppedError:
            raise
        except QuantscopeError as error:
            self._said = str(error)
        yield

    def _remedy(self, message: dict[str, Any]) -> Remedy:
        diagnosis = self.page.session.diagnosis
        try:
            assert diagnosis is not None
            finding = diagnosis.findings[int(message["finding"])]
            return finding.remedies[int(message["remedy"])]
        # A better diagnosis may have come between the drawing of a button and its click.
        except (AssertionError, IndexError, KeyError, ValueError):
            raise QuantscopeError("The findings have changed; choose again") from None

    def _help_kernels(self, how: str) -> None:
        """Do what the line of the kernels offers; What if then runs the file as this CPU does."""
        page = self.page
        if how == "seven-bits":
            self._take(Remedy("quantize with 7-bit weights", options={"reduce_range": True}))
            return
        if how == "cure":
            self._put(cure_edits(page.session))
            how = "runtime"
        if how in [option["key"] for option in page.bench.way_choice.options]:
            page.bench.way_choice.value = how
            page.tabs.tab = _EDITED

    def _take(self, remedy: Remedy) -> None:
        if remedy.options:
            opened = self.page.session.opened
            self.page.lab.quantize(remedy_config(opened.model, remedy))
            self.page.tabs.tab = _QUANTIZED
        elif remedy.edits:
            self._put(remedy.edits)

    def _put(self, edits: tuple[Edit, ...]) -> None:
        kept = tuple(edit for edit in self.page.edits if edit not in edits)
        refusal = self.page.bench.put((*kept, *edits))
        if refusal:
            raise QuantscopeError(refusal)
        self.page.tabs.tab = _EDITED


_CALIBRATION = 256


def calibration_for(session: Session) -> Samples:
    """Give the samples that cures look at, which scores are not of."""
    if session.is_bundled_sample:
        return calibration_set(_CALIBRATION)
    raise QuantscopeError(
        f"A cure looks at calibration samples, and those here are what scores are of; give others "
        f"with: quantscope cure {session.opened.path.name} --data CALIBRATION.npz"
    )
