"""Images: pick one; what the float and the quantized network make of it, outside and inside."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import marimo as mo
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import line, safe
from quantscope.app.panes.what_if_flips import thumbnail
from quantscope.app.pictures import WHOLE
from quantscope.app.selection import Selection
from quantscope.app.session import Accuracies, Session
from quantscope.app.widgets.live import Live
from quantscope.app.widgets.thumbnails import Thumbnails
from quantscope.app.words import word
from quantscope.report.figures.feature_maps import feature_maps
from quantscope.report.style import ThemeName
from quantscope.run import Evaluation, capture

if TYPE_CHECKING:
    from quantscope.app.page import Page

_A_PAGE = 36
_TOP = 5
_NAMES = {"float": "float", "reference": "its arithmetic", "runtime": "this CPU's kernels"}


class Images:
    """The picked image is the page's: other panes speak of it too."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.thumbnails, self.prediction = Thumbnails(), Live()
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
        """Another model, or better numbers."""
        found = self.page.session.accuracies
        if found is None:
            why = next(iter(self.page.session.failures.values()), "Images are being classified…")
            self.prediction.html = line(why)
            return
        self.thumbnails.filters = [
            {"key": key, "label": label, "count": int(chosen.sum())}
            for key, label, chosen in filters(found)
        ]
        if self.thumbnails.chosen not in found.images.indices:
            self.thumbnails.chosen = int(found.images.indices[0])
        self._fill()
        self._predict()

    def show(self) -> mo.Html:
        """Places for widgets: picking an image builds nothing anew."""
        if self.picked is None:
            self.refresh()
        why = why_no_maps(self.page.session)
        note = line(why, kind="qs-faint") if why else ""
        return mo.Html(
            '<div class="qs-images" data-testid="images">'
            f'<div class="qs-card">{self.views["thumbnails"]}</div>{self.views["prediction"]}'
            f"{note}</div>"
        )

    def close(self) -> None:
        for widget in self._widgets().values():
            widget.close()

    def _widgets(self) -> dict[str, Any]:
        return {"thumbnails": self.thumbnails, "prediction": self.prediction}

    def _on_chosen(self) -> None:
        self._predict()
        self.page.image_news()

    def _predict(self) -> None:
        picked = self.picked
        if picked is not None:
            self.prediction.html = prediction_html(*picked)

    def _turn_to_first(self) -> None:
        self.thumbnails.page = 0
        self._fill()

    def _fill(self) -> None:
        found = self.page.session.accuracies
        if found is None:
            return
        rows = np.flatnonzero(_chosen(found, self.thumbnails.filter))
        self.thumbnails.pages = max(1, -(-len(rows) // _A_PAGE))
        start = _A_PAGE * min(self.thumbnails.page, self.thumbnails.pages - 1)
        self.thumbnails.items = [_item(found, int(r)) for r in rows[start : start + _A_PAGE]]


def filters(found: Accuracies) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Key, name and images of each; those that cannot be told yet are left out."""
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


def prediction_html(found: Accuracies, row: int) -> str:
    """What each says of one image, the likeliest classes first."""
    names = _names(found)
    label = names[found.images.labels[row]]
    columns = "".join(
        _column(which, evaluation, row, names, int(found.images.labels[row]))
        for which in ("float", "reference", "runtime")
        if (evaluation := found.of(which)) is not None
    )
    picture = thumbnail(found.images, row)
    shown = f'<img src="{picture}" alt="">' if picture else ""
    return (
        f'<div class="qs-card qs-prediction" data-testid="prediction">{shown}'
        f"<div><h3>image {found.images.indices[row]:,}: {safe(label)}</h3>"
        f'<div class="qs-columns">{columns}</div></div></div>'
    )


def probabilities(evaluation: Evaluation, row: int) -> NDArray[np.float64]:
    """The softmax of the scores, or the scores where the model ends in one."""
    scores = np.asarray(evaluation.scores[row], np.float64)
    if (scores >= 0).all() and abs(scores.sum() - 1) < 1e-3:
        return scores
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


def why_no_maps(session: Session) -> str:
    """Empty where float and quantized feature maps can be set side by side."""
    if session.opened.is_float:
        return (
            f"{session.opened.path.name} is a float model; feature maps of float and quantized "
            f"layers are shown for a quantized one."
        )
    return session.opened.no_float or ""


def wanted(
    session: Session,
    picked: tuple[Accuracies, int] | None,
    selection: Selection,
    *,
    theme: ThemeName,
) -> list[Wanted]:
    """Feature maps of the selected layer's output for the picked image."""
    tensor = _activation(session, selection)
    if picked is None or tensor is None or session.opened.pairing is None:
        return []
    found, row = picked
    pair = session.opened.pairing.by_name.get(tensor)
    if pair is None:
        return []
    images, index = found.images.select(np.array([row])), int(found.images.indices[row])

    def draw() -> Figure:
        opened = session.opened
        assert opened.float_path is not None
        quantized = capture(opened.path, images, [tensor])[tensor]
        floats = next(iter(capture(opened.float_path, images, [pair.float_name]).tensors.values()))
        return feature_maps(floats, quantized, theme=theme)

    key = ("feature maps", tensor, index, found.images.digest, theme)
    return [Wanted(key, f"{tensor} of image {index:,}", draw, width=WHOLE, height=3.2)]


def _activation(session: Session, selection: Selection) -> str | None:
    network = session.opened.network
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    if layer is None:
        return selection.tensor
    return next((o.quant.name for o in layer.outputs if o.quant), None)


def _column(which: str, evaluation: Evaluation, row: int, names: list[str], label: int) -> str:
    shares = probabilities(evaluation, row)
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
        f"<h4>{word(which, _NAMES[which])}{verdict}</h4>"
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


def _chosen(found: Accuracies, wanted_key: str) -> NDArray[np.bool_]:
    known = {key: chosen for key, _, chosen in filters(found)}
    return known.get(wanted_key, known["all"])


def _quantized(found: Accuracies) -> Evaluation | None:
    return found.reference or found.runtime


def _names(found: Accuracies) -> list[str]:
    evaluation = found.float_ or _quantized(found)
    return list(evaluation.class_names) if evaluation else []
