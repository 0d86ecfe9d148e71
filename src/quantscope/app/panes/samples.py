"""Show samples, and what the float and the quantized network make of the picked one."""

from collections.abc import Hashable
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import marimo as mo
import numpy as np
from numpy.typing import NDArray

from quantscope.app.accuracies import Accuracies
from quantscope.app.editing import EditedFile
from quantscope.app.mistake import mistake
from quantscope.app.panes.parts import MAKE_ROWS, OPEN_DATA, line, missing, say_which_model
from quantscope.app.panes.sample_answers import answer_html, filters, item_of
from quantscope.app.panes.sample_maps import why_no_maps
from quantscope.app.session import Session
from quantscope.app.widgets import Live, Thumbnails
from quantscope.errors import QuantscopeError
from quantscope.run import Evaluation, evaluate

if TYPE_CHECKING:
    from quantscope.app.page import Page

_A_PAGE = 36
_WHICH = (
    "Counts, filters and thumbnails are of the model as it was opened; the column edited and "
    "the feature maps are with {edits}."
)


class SamplesPane:
    """The pane's widgets. The picked sample is the page's: other panes speak of it too."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.thumbnails, self.prediction, self.no_maps = Thumbnails(), Live(), Live()
        self._asked = 0
        self._saying = Lock()
        self.views = {name: mo.ui.anywidget(w) for name, w in self._widgets().items()}
        self.thumbnails.observe(lambda _: self._turn_to_first(), names="filter")
        self.thumbnails.observe(lambda _: self._fill(), names="page")
        self.thumbnails.observe(lambda _: self._on_chosen(), names="chosen")

    @property
    def picked(self) -> tuple[Accuracies, int] | None:
        """The picked sample as a row of what is measured; None while nothing is."""
        found = self.page.session.accuracies
        if found is None:
            return None
        rows = np.flatnonzero(found.images.indices == self.thumbnails.chosen)
        return (found, int(rows[0])) if len(rows) else None

    def refresh(self) -> None:
        """Show another model, better numbers or other edits."""
        self.selected()
        found = self.page.session.accuracies
        if found is None:
            said = nothing_yet(self.page.session)
            self._asked += 1
            with self.prediction.hold_sync():
                self.prediction.html, self.prediction.busy = said, False
            self.thumbnails.items, self.thumbnails.filters = [], []
            return
        self.thumbnails.filters = [
            {"key": key, "label": label, "count": len(rows)} for key, label, rows in filters(found)
        ]
        # Nothing is picked yet, or other samples were given with another model.
        if self.thumbnails.chosen not in found.images.indices:
            self.thumbnails.chosen = int(found.images.indices[0])
        self._fill()
        self._predict()

    def selected(self) -> None:
        """Say why the selected layer has no feature maps; those that it has are pictures."""
        why = why_no_maps(self.page.session, self.page.selection, self.page.edited)
        self.no_maps.html = why and line(why, kind="qs-faint")

    def show(self) -> mo.Html:
        """Give places for widgets: picking a sample builds nothing anew.

        It refreshes first, because edits may be others by now.
        """
        self.refresh()
        said = say_which_model(self.page.edited, _WHICH)
        return mo.Html(
            f'<div class="qs-images" data-testid="samples">{said}'
            f'<div class="qs-card">{self.views["thumbnails"]}</div>{self.views["prediction"]}'
            f"{self.views['no_maps']}</div>"
        )

    def close(self) -> None:
        for widget in self._widgets().values():
            widget.close()

    def _widgets(self) -> dict[str, Any]:
        return {
            "thumbnails": self.thumbnails,
            "prediction": self.prediction,
            "no_maps": self.no_maps,
        }

    def _on_chosen(self) -> None:
        self._predict()
        self.page.sample_news()

    def _predict(self) -> None:
        """Show what the models say: at once, or dimmed until the edited one has been asked.

        A program takes a second.
        """
        self._asked += 1
        picked, edited = self.picked, self.page.edited
        if picked is None:
            return
        if edited is None or self.page.session.peek(_key(edited, *picked)) is not None:
            self._say()
            return
        self.prediction.busy = True
        Thread(target=self._say, daemon=True).start()

    def _say(self) -> None:
        """Show the prediction, one call after the other.

        Who comes last knows what was picked last, and is heard last.
        """
        with self._saying:
            asked, picked, edited = self._asked, self.picked, self.page.edited
            if picked is None:
                return
            said = None if edited is None else self._ask_edited(edited, *picked)
            if asked == self._asked:
                with self.prediction.hold_sync():
                    self.prediction.html = answer_html(*picked, edited=said)
                    self.prediction.busy = False

    def _ask_edited(self, edited: EditedFile, found: Accuracies, row: int) -> Evaluation | str:
        """Ask the edited model about the picked sample alone; give a text if it cannot answer."""
        one = found.images.select(np.array([row]))
        try:
            return self.page.session.result(
                _key(edited, found, row),
                lambda: evaluate(edited.model, one, execution="reference"),
            )
        except QuantscopeError as error:
            return str(error)
        except Exception as error:
            return mistake(error)

    def _turn_to_first(self) -> None:
        self.thumbnails.page = 0
        self._fill()

    def _fill(self) -> None:
        found = self.page.session.accuracies
        if found is None:
            return
        rows = _rows_of(found, self.thumbnails.filter)
        self.thumbnails.pages = max(1, -(-len(rows) // _A_PAGE))
        self.thumbnails.page = min(self.thumbnails.page, self.thumbnails.pages - 1)
        start = _A_PAGE * self.thumbnails.page
        self.thumbnails.items = [item_of(found, int(r)) for r in rows[start : start + _A_PAGE]]


def _key(edited: EditedFile, found: Accuracies, row: int) -> Hashable:
    return "edited", edited.of, int(found.images.indices[row])


def nothing_yet(session: Session) -> str:
    """Say why no sample has an answer: they are on their way, or what to give."""
    if "images" in session.failures:
        return missing(f"No {session.noun} fits this model.", MAKE_ROWS, OPEN_DATA)
    judged = "classified" if session.is_bundled_sample else "evaluated"
    if not session.failures:
        return line(f"{session.noun.capitalize()}s are being {judged}…", kind="qs-faint")
    return line(f"No {session.noun} could be {judged}.", kind="qs-faint")


def _rows_of(found: Accuracies, wanted_key: str) -> NDArray[np.int64]:
    """Give the samples of a filter; all of them if it is not there any more."""
    known = {key: rows for key, _, rows in filters(found)}
    return known.get(wanted_key, known["all"])
