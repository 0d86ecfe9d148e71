"""Show one output value of the selected layer, taken apart into the integers that meet."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import marimo as mo
import numpy as np

from quantscope.app.editing import EditedFile
from quantscope.app.mistake import mistake
from quantscope.app.panes.parts import QUANTIZE, line, missing, safe, say_which_model, table
from quantscope.app.panes.samples import nothing_yet
from quantscope.app.place import Selection
from quantscope.app.session import Session
from quantscope.app.widgets import Choice, FeatureMap, Live
from quantscope.app.words import EXECUTIONS, word
from quantscope.arithmetic import type_text
from quantscope.data import Samples
from quantscope.errors import QuantscopeError
from quantscope.model import Model
from quantscope.report import computation
from quantscope.run import Trace, capture, trace_value

if TYPE_CHECKING:
    from quantscope.app.page import Page

TAB = "Trace"
_TERMS = 24
_WIDEST = 16  # values of a vector that are drawn in one row
_CHOICES = [
    {"key": "edited", "label": "edited", "word": ""},
    {"key": "original", "label": "as it was opened", "word": ""},
]
_EXECUTIONS = {
    " cannot be seen in runtime execution:": " cannot be seen:",
    "reference execution": EXECUTIONS["reference"],
    "runtime execution": EXECUTIONS["runtime"],
    "differ from reference": "differ from what the file states",
    "the runtime's integer": "their integer",
}
_HOW = (
    "Click a value or use the arrow keys. Layers are selected on the left, samples under Samples."
)


class Tracer:
    """The pane's widgets. The image is the page's picked one, the layer the selected one."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.map, self.text, self.which = FeatureMap(), Live(), Live()
        self.choice = Choice(label="Which model", options=[], value="edited")
        self.views = {name: mo.ui.anywidget(w) for name, w in self._widgets().items()}
        self._asked: _Asked | None = None
        self._output: _Output | None = None
        self.map.observe(lambda _: self._on_place(), names="place")
        self.choice.observe(lambda _: self.refresh(), names="value")

    def show(self) -> mo.Html:
        """Give places for widgets, filled for what is selected and picked."""
        why = why_not(self.page.session)
        if why:
            offers = (QUANTIZE,) if self.page.session.opened.is_float else ()
            return mo.Html(
                f'<div class="qs-card" data-testid="no-trace">{missing(why, *offers)}</div>'
            )
        self.refresh()
        which = f'<div class="qs-traced">{self.views["choice"]}{self.views["which"]}</div>'
        return mo.Html(
            f'<div class="qs-trace" data-testid="trace">{which if self.page.edited else ""}'
            f'<div class="qs-card">{self.views["map"]}{line(_HOW, kind="qs-faint")}</div>'
            f"{self.views['text']}</div>"
        )

    def refresh(self) -> None:
        """Read the values of another layer or image, then trace the same place if it has it."""
        if self.page.tabs.tab != TAB:
            return
        session, selection, edited = self.page.session, self.page.selection, self.page.edited
        self.choice.options = _CHOICES if edited else []
        if self.choice.value != "edited":
            self.which.html = say_which_model(
                edited, "The model as it was opened, without {edits}."
            )
            edited = None
        else:
            self.which.html = say_which_model(edited, "The edited model, with {edits}.")
        picked = self.page.samples.picked
        if picked is None or why_not(session):
            self._asked = self._output = None
            with self.text.hold_sync():
                self.text.html, self.text.busy = nothing_yet(session), False
            return
        found, row = picked
        asked = _Asked(session, edited, selection, found.images.select(np.array([row])))
        if self._asked is not None and asked.about == self._asked.about:
            return
        self._asked = asked
        self.text.busy = bool(self.text.html)
        self.text.html = self.text.html or line("Being taken apart…", kind="qs-faint")
        mo.Thread(target=self._read, args=(asked,), daemon=True).start()

    def close(self) -> None:
        for widget in self._widgets().values():
            widget.close()

    def _widgets(self) -> dict[str, Any]:
        return {
            "map": self.map,
            "text": self.text,
            "which": self.which,
            "choice": self.choice,
        }

    def _read(self, asked: "_Asked") -> None:
        """Read the layer's output, fill the map, and trace, unless another was asked for since."""
        try:
            output, why = asked.output(), ""
        except QuantscopeError as error:
            output, why = None, str(error)
        except Exception as error:
            output, why = None, mistake(error)
        if asked is not self._asked:
            return
        self._output = output
        if output is None:
            with self.map.hold_sync():
                self.map.values, self.map.title, self.map.channels = [], "", 1
            self._say(line(why), asked)
            return
        values = output.values
        # The same place as in the layer before, or the nearest that this one has.
        place = [min(at, size - 1) for at, size in zip(self.map.place, values.shape, strict=True)]
        with self.map.hold_sync():
            self.map.channels = len(values)
            self.map.is_vector = output.is_vector
            self.map.title = f"{asked.selection.layer}, {asked.session.noun} {asked.index:,}"
            self.map.low, self.map.high = int(values.min()), int(values.max())
            self.map.values = values[place[0]].tolist()
            self.map.place = place
        self._trace(asked)

    def _on_place(self) -> None:
        if self._output is None or self._asked is None:
            return
        values = self._output.values
        channel = min(self.map.place[0], len(values) - 1)
        self.map.values = values[channel].tolist()
        self.text.busy = True
        mo.Thread(target=self._trace, args=(self._asked,), daemon=True).start()

    def _trace(self, asked: "_Asked") -> None:
        place, output = tuple(self.map.place), self._output
        if output is None:  # another layer was asked for since
            return
        try:
            html = trace_html(asked.trace(output.place_of(place)), edited=asked.edited is not None)
        except QuantscopeError as error:
            html = line(str(error))
        except Exception as error:
            html = line(mistake(error))
        # Another place may have been clicked meanwhile.
        if place == tuple(self.map.place):
            self._say(html, asked)

    def _say(self, html: str, asked: "_Asked") -> None:
        if asked is self._asked:
            with self.text.hold_sync():
                self.text.html, self.text.busy = html, False


@dataclass(frozen=True, eq=False)
class _Asked:
    """A layer and an image to take apart, of the model as it was opened or with the edits."""

    session: Session
    edited: EditedFile | None
    selection: Selection
    images: Samples

    @property
    def about(self) -> tuple[Hashable, ...]:
        """The identity of the question: equal ones have the same answer."""
        edits = self.edited.of if self.edited else None
        return self.session.opened.key, edits, self.selection.layer, self.index

    @property
    def index(self) -> int:
        return int(self.images.indices[0])

    @property
    def model(self) -> Model:
        return self.edited.model if self.edited else self.session.opened.model

    def trace(self, at: tuple[int, ...]) -> Trace:
        layer, opened = self.selection.layer, self.session.opened
        assert layer is not None

        def make() -> Trace:
            return trace_value(
                self.model, layer, 0, at, data=self.images, float_model=opened.original
            )

        return self.session.result(("trace", self.about, at), make)

    def output(self) -> "_Output":
        """Capture the layer's output: integers where it is quantized."""
        if self.selection.layer is None:
            raise QuantscopeError("The model's input is not computed; select a layer to trace it")
        found = capture(self.model, self.images, [self.selection.layer])
        tensor = next(iter(found.tensors.values()))
        values = tensor.values if tensor.integers is None else tensor.integers
        return _Output(np.asarray(values[0]))


@dataclass(frozen=True, eq=False)
class _Output:
    """A layer's output for one sample, in the shape that it has, and as it is drawn."""

    array: np.ndarray[Any, Any]

    @property
    def is_vector(self) -> bool:
        """Say whether there is one value a channel, as after pooling or a matrix product."""
        return self.array.ndim != 3 or self.array.shape[1:] == (1, 1)

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """Give [channel, y, x]; a vector is one channel, its values in rows of equal length."""
        if not self.is_vector:
            return self.array
        if self.array.ndim == 2:
            return self.array[np.newaxis]
        size = max(self.array.size, 1)
        columns = next(c for c in range(min(size, _WIDEST), 0, -1) if size % c == 0)
        return self.array.reshape(1, -1, columns)

    def place_of(self, drawn: tuple[int, ...]) -> tuple[int, ...]:
        """Give the place in the output of a place in `values`."""
        flat = np.ravel_multi_index(drawn, self.values.shape)
        return tuple(int(at) for at in np.unravel_index(flat, self.array.shape))


def why_not(session: Session) -> str:
    """Say why nothing of this model can be traced; empty where it can."""
    opened = session.opened
    if opened.is_float:
        return f"{opened.path.name} is a float model: there are no integers to take apart yet."
    return opened.model.why_not_traced


def trace_html(trace: Trace, *, edited: bool = False) -> str:
    """Write the formula with its numbers, the parameters that count, and the terms."""
    mark = '<span class="qs-edited">edited</span>' if edited else ""
    rows = [
        f"<dt>{safe(_reword(what))}</dt><dd>{safe(_reword(value.replace('   ', ' · ')))}</dd>"
        if value
        else f'<dt class="qs-said">{safe(_reword(what))}</dt><dd hidden></dd>'
        for what, value in computation(trace)
    ]
    at = ", ".join(map(str, trace.at))
    return (
        f'<div class="qs-layer" data-testid="trace-text"><div class="qs-heading">'
        f"<h2>{safe(trace.layer)}</h2><span>{safe(trace.op_type)}</span><span>output [{at}]</span>"
        f'{mark}</div><div class="qs-card"><dl class="qs-formula">{"".join(rows)}</dl></div>'
        f"{_parameters(trace)}{_terms(trace)}</div>"
    )


def _reword(text: str) -> str:
    """Put in the page's words for the executions."""
    for ours, shown in _EXECUTIONS.items():
        text = text.replace(ours, shown)
    return text


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
            type_text(t.dtype, t.bits),
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
