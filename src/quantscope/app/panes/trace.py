"""Trace: one output value of the selected layer, taken apart into the integers that meet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import marimo as mo
import numpy as np

from quantscope.app.panes.parts import line, safe, table
from quantscope.app.selection import Selection
from quantscope.app.session import Session
from quantscope.app.widgets.feature_map import FeatureMap
from quantscope.app.widgets.live import Live
from quantscope.app.words import word
from quantscope.data import ImageSet
from quantscope.errors import QuantscopeError
from quantscope.run import Trace, capture, trace_value
from quantscope.run.trace_text import computation

if TYPE_CHECKING:
    from quantscope.app.page import Page

TAB = "Trace"
_TERMS = 24
_HOW = "Click a value or use the arrow keys. Layers are selected on the left, images under Images."


class Tracer:
    """The pane's widgets. The image is the page's picked one, the layer the selected one."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.map, self.text = FeatureMap(), Live()
        self.views = {name: mo.ui.anywidget(w) for name, w in self._widgets().items()}
        self._about: tuple[Any, ...] = ()
        self._values: np.ndarray[Any, Any] | None = None
        self.map.observe(lambda _: self._on_place(), names="place")

    def show(self) -> mo.Html:
        """Places for widgets, filled for what is selected and picked."""
        why = why_not(self.page.session)
        if why:
            return mo.Html(f'<div class="qs-card" data-testid="no-trace">{line(why)}</div>')
        self.refresh()
        return mo.Html(
            '<div class="qs-trace" data-testid="trace">'
            f'<div class="qs-card">{self.views["map"]}{line(_HOW, kind="qs-faint")}</div>'
            f"{self.views['text']}</div>"
        )

    def refresh(self) -> None:
        """Another layer or image: read its values, then trace the same place if it has it."""
        if self.page.tabs.tab != TAB:
            return
        session, selection = self.page.session, self.page.selection
        picked = self.page.images.picked
        if picked is None or why_not(session):
            self.text.html = line("The images are being classified…", kind="qs-faint")
            return
        found, row = picked
        about = (session.opened.key, selection.layer, int(found.images.indices[row]))
        if about == self._about:
            return
        self._about = about
        self.text.html = self.text.html or line("Being taken apart…", kind="qs-faint")
        self.text.busy = True
        images = found.images.select(np.array([row]))
        mo.Thread(target=self._read, args=(session, selection, images, about), daemon=True).start()

    def close(self) -> None:
        for widget in self._widgets().values():
            widget.close()

    def _widgets(self) -> dict[str, Any]:
        return {"map": self.map, "text": self.text}

    def _read(
        self, session: Session, selection: Selection, images: ImageSet, about: tuple[Any, ...]
    ) -> None:
        try:
            values = _output(session, selection, images)
        except QuantscopeError as error:
            self._values, self.map.values = None, []
            self._say(line(str(error)), about)
            return
        if about != self._about:
            return
        self._values = values
        place = [min(at, size - 1) for at, size in zip(self.map.place, values.shape, strict=True)]
        with self.map.hold_sync():
            self.map.channels = len(values)
            self.map.title = f"{selection.layer}, image {int(images.indices[0]):,}"
            self.map.low, self.map.high = int(values.min()), int(values.max())
            self.map.values = values[place[0]].tolist()
            self.map.place = place
        self._trace(session, selection, images, about)

    def _on_place(self) -> None:
        picked = self.page.images.picked
        if self._values is None or picked is None:
            return
        found, row = picked
        channel = min(self.map.place[0], len(self._values) - 1)
        self.map.values = self._values[channel].tolist()
        self.text.busy = True
        images = found.images.select(np.array([row]))
        session, selection = self.page.session, self.page.selection
        mo.Thread(
            target=self._trace, args=(session, selection, images, self._about), daemon=True
        ).start()

    def _trace(
        self, session: Session, selection: Selection, images: ImageSet, about: tuple[Any, ...]
    ) -> None:
        place, opened = tuple(self.map.place), session.opened
        assert self._values is not None and selection.layer is not None
        # After a Gemm there is a channel and nothing else.
        at = place if self._values.shape[1:] != (1, 1) else place[:1]

        def make() -> Trace:
            assert selection.layer is not None
            return trace_value(
                opened.path, selection.layer, 0, at, data=images, float_model=opened.float_path
            )

        try:
            found = session.result(("trace", selection.layer, at, int(images.indices[0])), make)
            html = trace_html(found)
        except QuantscopeError as error:
            html = line(str(error))
        if place == tuple(self.map.place):
            self._say(html, about)

    def _say(self, html: str, about: tuple[Any, ...]) -> None:
        if about == self._about:
            with self.text.hold_sync():
                self.text.html, self.text.busy = html, False


def why_not(session: Session) -> str:
    opened = session.opened
    if opened.is_float:
        return f"{opened.path.name} is a float model: there are no integers to take apart yet."
    if opened.network.format in ("pt2e", "torchscript"):
        return (
            f"{opened.path.name} is a PyTorch file; values are traced in ONNX models. Open its "
            f"ONNX form: quantscope quantize writes it with --onnx FILE."
        )
    return ""


def trace_html(trace: Trace) -> str:
    """The formula with its numbers, the parameters that count, and the terms."""
    rows = [
        f"<dt>{safe(what)}</dt><dd>{safe(value.replace('   ', ' · '))}</dd>"
        if value
        else f'<p class="qs-line">{safe(what)}</p>'
        for what, value in computation(trace)
    ]
    at = ", ".join(map(str, trace.at))
    return (
        f'<div class="qs-layer" data-testid="trace-text"><div class="qs-heading">'
        f"<h2>{safe(trace.layer)}</h2><span>{safe(trace.op_type)}</span><span>output [{at}]</span>"
        f'</div><div class="qs-card"><dl class="qs-formula">{"".join(rows)}</dl></div>'
        f"{_parameters(trace)}{_terms(trace)}</div>"
    )


def _parameters(trace: Trace) -> str:
    head = (
        "",
        "tensor",
        word("dtype", "type"),
        word("scale", "scale"),
        word("zero_point", "zero-point"),
        "channel",
    )
    rows = (
        (
            safe(t.role),
            safe(t.name),
            t.dtype,
            f"{t.scale:.9g}",
            str(t.zero_point),
            "" if t.channel is None else str(t.channel),
        )
        for t in trace.tensors
    )
    return table(head, rows, right=(3, 4, 5))


def _terms(trace: Trace) -> str:
    largest = sorted(trace.terms, key=lambda term: -abs(term.product))[:_TERMS]
    head = ("x at", "x", "x − zero", "w", "w − zero", "product", "steps of the output")

    def cell(value: int | None) -> str:
        return "–" if value is None else f"{value:,}".replace("-", "−")

    rows: list[Sequence[str]] = [
        (
            f"[{', '.join(map(str, term.at))}]{' padding' if term.is_padding else ''}",
            cell(term.x),
            cell(term.x_centred),
            cell(term.w),
            cell(term.w_centred),
            cell(term.product),
            f"{term.steps:.4f}".replace("-", "−"),
        )
        for term in largest
    ]
    count = len(trace.terms)
    some = "all" if count <= _TERMS else f"the {_TERMS} largest of"
    note = line(f"{some} {count:,} terms", kind="qs-faint")
    return note + table(head, rows, right=(1, 2, 3, 4, 5, 6))


def _output(session: Session, selection: Selection, images: ImageSet) -> np.ndarray[Any, Any]:
    """The layer's output as [channel, y, x]: integers where it is quantized."""
    if selection.layer is None:
        raise QuantscopeError("The model's input is not computed; select a layer to trace it")
    found = capture(session.opened.path, images, [selection.layer])
    tensor = next(iter(found.tensors.values()))
    values = tensor.values if tensor.integers is None else tensor.integers
    one = np.asarray(values[0])
    return one if one.ndim == 3 else one.reshape(-1, 1, 1)
