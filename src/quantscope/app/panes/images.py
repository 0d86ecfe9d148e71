"""Show images, and what the float and the quantized network make of the picked one."""

from collections.abc import Hashable, Iterator
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import marimo as mo
import numpy as np
from numpy.typing import NDArray

from quantscope.app.accuracies import Accuracies
from quantscope.app.edits import EditedFile
from quantscope.app.panes.image_maps import why_no_maps
from quantscope.app.panes.parts import line, safe, said_of
from quantscope.app.pictures import thumbnail
from quantscope.app.widgets import Live, Thumbnails
from quantscope.app.words import word
from quantscope.app.worker import mistake
from quantscope.errors import QuantscopeError
from quantscope.run import Evaluation, evaluate

if TYPE_CHECKING:
    from quantscope.app.page import Page

_A_PAGE = 36
_TOP = 5
# Quantized probabilities add up to 1 only so nearly.
_NEARLY = 0.05
_NAMES = {
    "float": word("float", "float"),
    "reference": word("reference", "its arithmetic"),
    "runtime": word("runtime", "this CPU's kernels"),
    "edited": f"edited, {word('reference', 'its arithmetic')}",
}
_WHICH = (
    "Counts, filters and thumbnails are of the model as it was opened; the column edited and "
    "the feature maps are with {edits}."
)


class Images:
    """The pane's widgets. The picked image is the page's: other panes speak of it too."""

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
        """The picked image as a row of what is measured; None while nothing is."""
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
            failed = self.page.session.failures
            said = "No image could be classified." if failed else "Images are being classified…"
            self._asked += 1
            with self.prediction.hold_sync():
                self.prediction.html, self.prediction.busy = line(said, kind="qs-faint"), False
            self.thumbnails.items, self.thumbnails.filters = [], []
            return
        self.thumbnails.filters = [
            {"key": key, "label": label, "count": int(chosen.sum())}
            for key, label, chosen in filters(found)
        ]
        # Nothing is picked yet, or other images were given with another model.
        if self.thumbnails.chosen not in found.images.indices:
            self.thumbnails.chosen = int(found.images.indices[0])
        self._fill()
        self._predict()

    def selected(self) -> None:
        """Say why the selected layer has no feature maps; those that it has are pictures."""
        why = why_no_maps(self.page.session, self.page.selection, self.page.edited)
        self.no_maps.html = line(why, kind="qs-faint") if why else ""

    def show(self) -> mo.Html:
        """Give places for widgets: picking an image builds nothing anew.

        It refreshes first, because edits may be others by now.
        """
        self.refresh()
        said = said_of(self.page.edited, _WHICH)
        return mo.Html(
            f'<div class="qs-images" data-testid="images">{said}'
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
        self.page.image_news()

    def _predict(self) -> None:
        """Show what the models say: at once, or dimmed until the edited one has been asked.

        A program takes a second.
        """
        self._asked += 1
        picked, edited = self.picked, self.page.edited
        if picked is None:
            return
        if edited is None or self.page.session.known(_key(edited, *picked)) is not None:
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
                    self.prediction.html = prediction_html(*picked, edited=said)
                    self.prediction.busy = False

    def _ask_edited(self, edited: EditedFile, found: Accuracies, row: int) -> Evaluation | str:
        """Ask the edited model about the picked image alone; give a text if it cannot answer."""
        image = found.images.select(np.array([row]))
        try:
            return self.page.session.result(
                _key(edited, found, row),
                lambda: evaluate(edited.model, image, execution="reference"),
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
        rows = np.flatnonzero(_mask_of(found, self.thumbnails.filter))
        self.thumbnails.pages = max(1, -(-len(rows) // _A_PAGE))
        self.thumbnails.page = min(self.thumbnails.page, self.thumbnails.pages - 1)
        start = _A_PAGE * self.thumbnails.page
        self.thumbnails.items = [_item(found, int(r)) for r in rows[start : start + _A_PAGE]]


def _key(edited: EditedFile, found: Accuracies, row: int) -> Hashable:
    return "edited", edited.of, int(found.images.indices[row])


def filters(found: Accuracies) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Give key, name and images of each filter; those that cannot be told yet are left out."""
    labels = found.images.labels
    yield "all", "all images", np.ones(len(labels), bool)
    quantized = _quantized(found)
    judged = quantized or found.float_
    if judged is not None:
        yield "wrong", "wrong", judged.predictions != labels
    if quantized is not None and found.float_ is not None:
        flipped = quantized.predictions != found.float_.predictions
        yield "flipped", "flipped by quantization", flipped
    for number, name in enumerate(_names(found)):
        yield f"class {number}", f"class {name}", labels == number


def prediction_html(found: Accuracies, row: int, *, edited: Evaluation | str | None = None) -> str:
    """Show what each model says of one image, the likeliest classes first.

    `edited` is what the edited model says of this image alone, or a text in its place.
    """
    names = _names(found)
    number = int(found.images.labels[row])
    label = names[number]
    columns = "".join(
        _column(which, evaluation, row, names, number)
        for which in ("float", "reference", "runtime")
        if (evaluation := found.of(which)) is not None
    )
    if isinstance(edited, Evaluation):
        columns += _column("edited", edited, 0, names, number, like=_quantized(found))
    elif edited is not None:
        columns += f'<div class="qs-of-edited"><h4>edited</h4>{line(edited, kind="qs-faint")}</div>'
    picture = thumbnail(found.images, row)
    shown = f'<img src="{picture}" alt="">' if picture else ""
    return (
        f'<div class="qs-card qs-prediction" data-testid="prediction">{shown}'
        f"<div><h3>image {found.images.indices[row]:,}: {safe(label)}</h3>"
        f'<div class="qs-columns">{columns}</div></div></div>'
    )


def probabilities(
    evaluation: Evaluation, row: int, *, like: Evaluation | None = None
) -> NDArray[np.float64]:
    """Give the softmax of the scores, or the scores where the model ends in one.

    Quantized probabilities of one image need not add up to 1; over all images they nearly do.
    `like` is of many images, by a model that ends as this one's does: a few images cannot tell.
    """
    scores = np.asarray(evaluation.scores[row], np.float64)
    known = (like or evaluation).scores
    sums = known.sum(axis=1, dtype=np.float64)
    if known.min() >= 0 and np.abs(np.median(sums) - 1) < _NEARLY:
        return scores
    # The largest is subtracted so that no power overflows.
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


def _column(
    which: str,
    evaluation: Evaluation,
    row: int,
    names: list[str],
    label: int,
    *,
    like: Evaluation | None = None,
) -> str:
    shares = probabilities(evaluation, row, like=like)
    best = np.argsort(-shares, kind="stable")[:_TOP]
    lines = "".join(
        f'<tr class="{"qs-true" if k == label else ""}"><td>{safe(names[k])}</td>'
        f'<td class="qs-share"><i style="width:{100 * shares[k]:.1f}%"></i></td>'
        f'<td class="qs-right">{100 * shares[k]:.1f} %</td></tr>'
        for k in best
    )
    verdict = "" if best[0] == label else ' <span class="qs-bad">wrong</span>'
    return (
        f'<div class="qs-of-{which}" data-testid="prediction-{which}">'
        f"<h4>{_NAMES[which]}{verdict}</h4>"
        f'<table class="qs-shares">{lines}</table></div>'
    )


def _item(found: Accuracies, row: int) -> dict[str, Any]:
    names = [*_names(found), "NaN"]  # the prediction is -1 where a score is NaN
    quantized = _quantized(found) or found.float_
    floats = found.float_ or quantized
    assert floats is not None and quantized is not None
    return {
        "index": int(found.images.indices[row]),
        "src": thumbnail(found.images, row),
        "label": names[found.images.labels[row]],
        "float": names[floats.predictions[row]],
        "quantized": names[quantized.predictions[row]],
    }


def _mask_of(found: Accuracies, wanted_key: str) -> NDArray[np.bool_]:
    """Mark the images of a filter; all of them if it is not there any more."""
    known = {key: chosen for key, _, chosen in filters(found)}
    return known.get(wanted_key, known["all"])


def _quantized(found: Accuracies) -> Evaluation | None:
    return found.reference or found.runtime


def _names(found: Accuracies) -> list[str]:
    evaluation = found.float_ or _quantized(found)
    return list(evaluation.class_names) if evaluation else []
