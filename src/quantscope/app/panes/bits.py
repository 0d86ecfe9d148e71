"""Show what bits buy: the map of all widths, each tensor alone, and the walk to mixed bits."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import marimo as mo

from quantscope.app.painter import Wanted
from quantscope.app.panes.parts import QUANTIZE, line, missing, offer, safe, table
from quantscope.app.panes.scores import value_text
from quantscope.app.panes.what_if import editor_of
from quantscope.app.pictures import WHOLE
from quantscope.app.session import Session
from quantscope.app.widgets import Job, Live
from quantscope.app.worker import Worker
from quantscope.edit import Edit
from quantscope.errors import QuantscopeError
from quantscope.plain_text import many
from quantscope.progress import Progress
from quantscope.report.figures import ThemeName, bit_curves_figure, bit_frontier
from quantscope.study.bits import (
    BitCell,
    BitCurves,
    BitMap,
    Frontier,
    FrontierPoint,
    Width,
    bit_curves,
    bit_map,
    edits_for,
    walk_frontier,
)

if TYPE_CHECKING:
    from quantscope.app.page import Page

TAB = "Bits"
WIDTHS = (2, 3, 4, 5, 6, 7, 8)
_ASKS = {
    "map": "measure every pair of widths",
    "curves": "give each tensor other bits, alone",
    "frontier": "walk down to mixed bits",
}
_HOW = (
    "A click puts those bits in force. In bold where no loss against the float model can be told "
    "from chance."
)


class BitsPane:
    """The pane of one page; what was measured is the session's, on its quick samples."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.job, self.text = Job(), Live()
        self.worker = Worker(self.job, self.refresh)
        self.views = {"job": mo.ui.anywidget(self.job), "text": mo.ui.anywidget(self.text)}
        self.job.on_msg(self._on_job)

    def show(self) -> mo.Html:
        """Give places for widgets: nothing here changes while something is measured."""
        why = why_not(self.page.session)
        if why:
            offers = (QUANTIZE,) if self.page.session.opened.is_float else ()
            return mo.Html(
                f'<div class="qs-card" data-testid="no-bits">{missing(why, *offers)}</div>'
            )
        self.refresh()
        return mo.Html(
            f'<div class="qs-layer qs-bits" data-testid="bits">{self.views["job"]}'
            f"{self.views['text']}</div>"
        )

    def refresh(self) -> None:
        """Show what was measured since; called from the worker's thread too."""
        if not why_not(self.page.session):
            self.text.html = bits_html(self.page.session)
            self.page.bits_news()

    def wanted(self, theme: ThemeName) -> list[Wanted]:
        return list(_wanted(self.page.session, theme))

    def asked(self, message: dict[str, Any]) -> None:
        """Measure something, or put the edits of a cell or of a point in force."""
        what = message.get("what", "")
        if what in _ASKS and not self.job.running:
            session = self.page.session
            self.worker.start(lambda progress: _measure(session, what, progress))
        elif message.get("do") == "put-bits" and (edits := edits_at(self.page.session, message)):
            self.job.error = self.page.bench.put(edits)

    def opened(self) -> None:
        """Another model is shown: what is measured of the one before is not wanted any more."""
        self.worker.stop()
        self.text.html = ""

    def close(self) -> None:
        self.worker.stop()
        self.job.close()
        self.text.close()

    def _on_job(self, _widget: Any, message: dict[str, str], _buffers: Any) -> None:
        if message.get("do") == "stop":
            self.worker.stop()


def why_not(session: Session) -> str:
    """Say why no bits of this model can be changed; empty where they can."""
    opened = session.opened
    if opened.is_float:
        return f"{opened.path.name} is a float model: it has no bits to take away yet."
    if opened.model.framework != "onnx":
        return "The bits of a program are set with: quantscope whatif MODEL --bits TARGET=N"
    if "images" in session.failures:
        return "Nothing can be measured: the given samples do not fit the model."
    return opened.no_float or ""


def edits_at(session: Session, message: dict[str, Any]) -> tuple[Edit, ...]:
    """Give the edits of a cell of the map, or of a point of the walk; none where it is gone."""
    try:
        if "point" in message:
            walk = found(session, "frontier")
            return walk.points[int(message["point"])].edits if walk else ()
        weights, activations = (_width(message[key]) for key in ("weights", "activations"))
        return tuple(edits_for(weights, activations))
    except (KeyError, IndexError, ValueError):
        return ()


def found(session: Session, what: str) -> Any:
    """Give what was measured of the model that is shown; None while it was not."""
    return session.peek(("bits", what))


def bits_html(session: Session) -> str:
    """Write the map with its cells as buttons, the points of the walk, and what can be measured."""
    known = {what: found(session, what) for what in _ASKS}
    asks = "".join(
        offer(text, "bits", what=what) for what, text in _ASKS.items() if known[what] is None
    )
    count = many(len(session.quick), session.noun)
    parts = [f'<p class="qs-line qs-next">{asks}</p>'] if asks else []
    parts.append(
        line(
            f"Measured on {count}; ranges stay as they are calibrated, so what differs is the "
            f"number of bits. Bias bits follow.",
            kind="qs-faint",
        )
    )
    if known["map"] is not None:
        parts.append(_map_html(known["map"]))
    if known["frontier"] is not None:
        parts.append(_walk_html(known["frontier"]))
    return "".join(parts)


def _measure(session: Session, what: str, progress: Progress) -> Iterator[None]:
    editor, samples = editor_of(session), session.quick
    floats = session.opened.known_float
    common: dict[str, Any] = {"measure": session.measured_by, "progress": progress}

    def make_map() -> BitMap:
        model = session.opened.model
        return bit_map(model, samples, float_model=floats, weights=WIDTHS, activations=WIDTHS,
                       **common)  # fmt: skip

    makers: dict[str, Callable[[], Any]] = {
        "map": make_map,
        "curves": lambda: bit_curves(editor, samples, **common),
        "frontier": lambda: walk_frontier(editor, samples, **common),
    }
    if session.measured_by is not None and session.measured_by.needs_floats and floats is None:
        raise QuantscopeError("This measure needs the float model; give it when opening")
    session.result(("bits", what), makers[what])
    yield


def _map_html(result: BitMap) -> str:
    scores = [cell.score for cell in result.cells if cell.score is not None]
    low, high = min(scores, default=0.0), max(scores, default=1.0)
    head = ["weights", *(f"{_name(width)}" for width in result.activations)]
    rows = (
        [_name(bits), *(_cell_html(cell, result.unit, low, high) for cell in cells)]
        for bits, cells in result.rows()
    )
    return (
        f'<section class="qs-card" data-testid="bit-map"><h2>{safe(result.measure)} by bits: '
        f"weights down, activations across</h2>{table(head, rows)}"
        f"{line(_HOW, kind='qs-faint')}</section>"
    )


def _cell_html(cell: BitCell, unit: str, low: float, high: float) -> str:
    if cell.score is None:
        return f'<span title="{safe(cell.reason or "")}">–</span>'
    share = (cell.score - low) / (high - low) if high > low else 1.0
    ends = cell.delta_interval_95
    text = _score(cell.score, unit)
    button = offer(
        text,
        "put-bits",
        weights=str(cell.weights or ""),
        activations=str(cell.activations or ""),
    )
    told = "" if ends is None or ends[0] <= 0 <= ends[1] else " qs-told"
    return f'<span class="qs-cell{told}" style="--share:{100 * share:.0f}%">{button}</span>'


def _walk_html(walk: Frontier) -> str:
    head = ["", "narrowed", "weights", "M bit-products", "score", ""]
    rows = [
        [
            str(place),
            safe(point.step or "all"),
            *_costs(point, walk.unit),
            offer("put in force", "put-bits", point=str(place)),
        ]
        for place, point in enumerate(walk.points)
    ]
    return (
        f'<section class="qs-card" data-testid="bit-walk"><h2>The walk to mixed bits, tensor by '
        f"tensor</h2>{table(head, rows, right=(0, 2, 3, 4))}</section>"
    )


def _costs(point: FrontierPoint, unit: str) -> list[str]:
    return [
        f"{point.weight_bytes / 1000:,.1f} kB",
        f"{point.bit_operations / 1e6:,.0f}",
        _score(point.score, unit),
    ]


def _wanted(session: Session, theme: ThemeName) -> Iterator[Wanted]:
    walk: Frontier | None = found(session, "frontier")
    curves: BitCurves | None = found(session, "curves")
    if walk is not None:
        title = "Score against what it costs, mixed and uniform bits"
        yield Wanted(("bit walk", theme), title, lambda: bit_frontier(walk, theme=theme),
                     width=WHOLE, height=4.4)  # fmt: skip
    if curves is not None:
        title = "Each tensor at other bits, alone"
        yield Wanted(("bit curves", theme), title, lambda: bit_curves_figure(curves, theme=theme),
                     width=WHOLE)  # fmt: skip


def _score(score: float, unit: str) -> str:
    return f"{100 * score:.1f} %" if unit == "share" else value_text(score, unit)


def _name(width: Width) -> str:
    return "float" if width is None else str(width)


def _width(text: str) -> Width:
    return int(text) if text else None
