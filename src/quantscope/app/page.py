"""Hold one browser page: its widgets, what is opened, selected and edited, and the work for it.

Widgets are created once and get new traits; what the notebook shows depends on marimo's states,
whose setters are given here. Setters may be called from any thread of marimo's.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import marimo as mo
import traitlets

from quantscope.app.editing import EditedFile, Edits
from quantscope.app.memo import give_back_soon
from quantscope.app.metrics import metrics
from quantscope.app.mistake import mistake
from quantscope.app.opened import openable_models
from quantscope.app.painter import Painter, Wanted
from quantscope.app.panes.bits import BitsPane
from quantscope.app.panes.diagnose import Doctor, worst_selection
from quantscope.app.panes.layers import pairs_html, places
from quantscope.app.panes.ptq_lab import PtqLab
from quantscope.app.panes.samples import SamplesPane
from quantscope.app.panes.take import TakeAway
from quantscope.app.panes.trace import Tracer
from quantscope.app.panes.what_if import TAB as WHAT_IF
from quantscope.app.panes.what_if import Workbench
from quantscope.app.place import (
    TABS,
    Beginning,
    Given,
    Place,
    Selection,
    first_selection,
    fitting,
)
from quantscope.app.rows import LAYER_COLUMNS, TENSOR_COLUMNS, layer_rows, tensor_rows
from quantscope.app.session import Session
from quantscope.app.widgets import (
    Choice,
    Chrome,
    EditStrip,
    Gallery,
    GraphView,
    Job,
    Live,
    Opener,
    Table,
    Tabs,
    drawing_of,
)
from quantscope.app.words import EXECUTIONS, WORDS
from quantscope.app.worker import Work, Worker
from quantscope.errors import QuantscopeError
from quantscope.model import Execution
from quantscope.plain_text import printable
from quantscope.progress import Progress

# A session holds its results, so each costs memory.
_MOST_SESSIONS = 3

WAYS = (
    {"key": "stated", "label": EXECUTIONS["reference"], "word": "reference"},
    {"key": "run", "label": EXECUTIONS["runtime"], "word": "runtime"},
)
_WAY_OF: dict[Execution, str] = {"reference": "stated", "runtime": "run"}

Setter = Callable[[Any], None]


@dataclass(frozen=True)
class Setters:
    """The states that the notebook listens to.

    `numbers`, `lab`, `sample` and `model` count changes.
    """

    selection: Setter
    tab: Setter
    model: Setter
    numbers: Setter
    lab: Setter
    sample: Setter
    edits: Setter
    theme: Setter
    topic: Setter


class Page:
    """One browser page. `session` is another object after another model was opened."""

    def __init__(self, begun: Beginning, setters: Setters) -> None:
        self._set = setters
        self._edits: Edits = ()
        self._edited: EditedFile | None = None
        self._kept: dict[tuple[str, ...], Edits] = {begun.session.opened.key: begun.place.edits}
        """The edits of each model that this page has shown."""
        self._asked: Given | None = None
        self._is_chosen = begun.place.selection is not None
        """It says whether a person chose a layer; until then the page shows the worst one."""
        self._usual: Selection | None = None
        self._selects = False
        self._opening = Lock()
        self._home, self._given = begun.home, begun.place.given or begun.home
        self.session = begun.session
        self._recent: deque[Session] = deque(maxlen=_MOST_SESSIONS)  # to go back to at once
        self.chrome = Chrome(words={key: vars(word) for key, word in WORDS.items()})
        self.opener = Opener(bundled=list(openable_models()))
        self.way = Choice(label="Which execution is shown", value=_WAY_OF[begun.place.execution])
        self.graph = GraphView(metric=begun.place.colour)
        self.layers = Table(columns=list(LAYER_COLUMNS), label="layers")
        self.tensors = Table(columns=list(TENSOR_COLUMNS), label="tensors", by_tensor=True)
        self.pairs = Live()
        self.tabs = Tabs(names=list(TABS), tab=begun.place.tab)
        self.job = Job()
        self.worker = Worker(self.job, self.refresh)
        self._next: Work = self._measure
        self.strip = EditStrip()
        self.gallery = Gallery()
        self.painter = Painter(self.gallery)
        self.bench = Workbench(self)
        self.lab = PtqLab(self)
        self.doctor = Doctor(self)
        self.bits = BitsPane(self)
        self.samples = SamplesPane(self)
        self.tracer = Tracer(self)
        self.take = TakeAway(self)
        # Wrapped once: a new wrapper at each run of a cell would be a new element of the page.
        self.views = {name: mo.ui.anywidget(widget) for name, widget in self._widgets().items()}
        self._wire()
        self._show(begun.session, begun.place.selection)
        self.error = begun.error or self.bench.left_out
        """A line that says what of the address or the command is not shown."""
        self._write_address()

    @property
    def selection(self) -> Selection:
        """The selection of the whole page; the graph has it."""
        return Selection.from_dict(self.graph.selection)

    @property
    def seen(self) -> Session:
        """The session, with the comparison of the execution that the person looks at."""
        return self.session.seen_in("runtime" if self.way.value == "run" else "reference")

    @property
    def given(self) -> Given:
        """The pair and the samples that are shown, as a person gave them."""
        return self._given

    def select(self, selection: Selection) -> None:
        """Select as a click in the graph does; other widgets follow."""
        self.graph.selection = selection.to_dict()

    @property
    def edits(self) -> Edits:
        """The edits in force, in the order in which they are applied."""
        return self._edits

    def set_edits(self, edits: Edits) -> None:
        """Put other edits in force; the address says them, so they outlive a reload."""
        self._edits = self._kept[self.session.opened.key] = edits
        self._write_address()
        self.graph.note = "without the edits" if edits else ""
        self.bench.edited()
        # A slider moves there, and other panes are shown anew when they are turned to.
        if self.tabs.tab != WHAT_IF:
            self.samples.refresh()
            self.tracer.refresh()
            self._set.edits(edits)

    def kept_edits(self) -> Edits:
        """Give what was in force when this page last showed the model that it shows now."""
        return self._kept.get(self.session.opened.key, ())

    @property
    def edited(self) -> EditedFile | None:
        """The model with the edits in force; None while there are none."""
        if not self._edits:
            return None
        made = EditedFile(self.bench.applied, self.session.opened.network)
        if self._edited is None or self._edited.of != made.of:
            self._edited = made
        return self._edited

    def give_as(self, model: Path, float_model: Path | None) -> Given:
        """Give another model with what else was given here: samples, and what is counted."""
        return replace(self._given, model=str(model), float_model=str(float_model or ""))

    def open(self, given: Given) -> None:
        """Show another pair; what is wrong with it is a line beside where it was asked for.

        If several are asked for in a row, the last one is shown.
        """
        self._asked = given
        self.opener.busy, self.opener.error = True, ""
        mo.Thread(target=self._open, args=(given,), daemon=True).start()

    def begin(self) -> None:
        """Measure what is opened: a few samples first, then the whole sample."""
        self.worker.start(self._measure)

    def refresh(self) -> None:
        """Show what the session has found out since."""
        found = metrics(self.seen)
        self.graph.colour(found)
        self.layers.metrics = self.graph.metrics
        self.tensors.rows = tensor_rows(self.seen)
        self.pairs.html = pairs_html(self.session)
        self.bench.refresh()
        self.samples.refresh()
        self.tracer.refresh()
        self._select_worst()
        self.numbers_news()

    def numbers_news(self) -> None:
        """Tell the notebook that something was found out."""
        self._set.numbers(lambda count: count + 1)

    def work_first(self, work: Work) -> None:
        """Do this at once; what is measured unasked goes on after it."""

        def both(progress: Progress) -> Iterator[None]:
            yield from work(progress)
            yield from self._measure(progress)

        self.worker.start(both)

    def sample_news(self) -> None:
        """Tell the notebook that another sample is picked."""
        self.tracer.refresh()
        self._set.sample(lambda count: count + 1)

    def lab_news(self) -> None:
        """Tell the notebook that the lab has tried something."""
        self._set.lab(lambda count: count + 1)

    def bits_news(self) -> None:
        """Tell the notebook that bits were measured."""
        self._set.lab(lambda count: count + 1)

    def paint(self, wanted: Sequence[Wanted]) -> None:
        """Show these pictures in the gallery; what is not drawn yet comes when it is.

        Until the browser has told its theme there are none: in the wrong one they would flash.
        """
        known = wanted if self.chrome.theme else ()
        self.painter.show(self.session, known, tab=self.tabs.tab)

    def close(self) -> None:
        """End all work of this page, at the end of the browser's session."""
        self.worker.stop()
        self.painter.close()
        self.bench.close()
        self.lab.close()
        self.bits.close()
        self.samples.close()
        self.tracer.close()
        for widget in self._widgets().values():
            widget.close()
        give_back_soon()

    def _widgets(self) -> dict[str, Any]:
        return {
            "chrome": self.chrome,
            "opener": self.opener,
            "way": self.way,
            "graph": self.graph,
            "layers": self.layers,
            "tensors": self.tensors,
            "pairs": self.pairs,
            "tabs": self.tabs,
            "job": self.job,
            "strip": self.strip,
            "gallery": self.gallery,
            "take": self.take.menu,
        }

    def _wire(self) -> None:
        """Link the widgets' selections, and tell the notebook and the panes what changes."""
        for other in (self.layers, self.tensors, self.gallery, self.chrome):
            traitlets.link((self.graph, "selection"), (other, "selection"))
        traitlets.link((self.graph, "metric"), (self.layers, "metric"))
        self.graph.observe(
            lambda change: self._set.selection(Selection.from_dict(change["new"])),
            names="selection",
        )
        self.graph.observe(lambda _: self._chose(), names="selection")
        self.graph.observe(lambda _: self.bench.refresh(), names="selection")
        self.graph.observe(lambda _: self.tracer.refresh(), names="selection")
        self.graph.observe(lambda _: self.samples.selected(), names="selection")
        self.graph.observe(lambda _: self._write_address(), names="selection")
        self.graph.observe(lambda _: self._write_address(), names="metric")
        self.tabs.observe(lambda _: self._write_address(), names="tab")
        self.tabs.observe(lambda change: self._set.tab(change["new"]), names="tab")
        self.chrome.observe(lambda change: self._set.theme(change["new"]), names="theme")
        self.chrome.observe(lambda change: self._read(change["new"]), names="topic")
        self.way.observe(lambda _: self._turn(), names="value")
        self.opener.on_msg(self._on_opener)
        self.chrome.on_msg(self._on_ask)
        self.strip.on_msg(self._on_strip)
        self.job.on_msg(self._on_job)

    def _turn(self) -> None:
        """Show the network as another execution computes it, measured now if it is not yet."""
        self._write_address()
        self.bench.way_choice.value = self.seen.compared_in
        self.refresh()
        if self.seen.comparison is None and self.way.value == "run":
            self.work_first(self._compare_runtime)

    def _switch_pairs(self, progress: Progress) -> Iterator[None]:
        self.pairs.busy = True
        try:
            yield from self.session.switch_pairs(progress)
        finally:
            self.pairs.busy = False

    def _compare_runtime(self, progress: Progress) -> Iterator[None]:
        session = self.session
        for images in (session.quick, session.sample):
            yield from session.compare(images, progress, execution="runtime")

    def _read(self, topic: dict[str, str]) -> None:
        self._set.topic(topic.get("page", ""))
        self.tabs.tab = "Help"

    def _on_opener(self, _widget: Any, message: dict[str, str], _buffers: Any) -> None:
        if message.get("do") != "open":
            return
        floats, data = (message.get(key, "") for key in ("float_model", "data"))
        if model := message.get("model"):
            self.open(Given(model, floats, data).count_as(self._home))
        else:
            self.opener.error = ""  # the browser has hidden what it said before
            self.opener.error = "Give a model: choose one above, or write the path of a file"

    def _on_ask(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        """Bring what a line of a pane offered."""
        if message.get("do") == "opener":
            self.opener.given = self._given.to_dict()
            asked = self.opener.asked.get("n", 0)
            self.opener.asked = {"field": message.get("field", ""), "n": asked + 1}
        elif message.get("do") == "tab" and message.get("tab") in TABS:
            self.tabs.tab = message["tab"]
        elif message.get("do") == "pairs" and not self.pairs.busy:
            self.work_first(self._switch_pairs)
        elif message.get("do") == "go":
            self._go(message)
        elif message.get("do") in ("bits", "put-bits"):
            self.bits.asked(message)
        elif message.get("do") in ("undo", "redo"):
            self._on_strip(_widget, message, _buffers)
        elif message.get("do") == "random":
            self.open(self._given.with_random_rows())
        else:
            self.doctor.asked(message)

    def _on_strip(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if message.get("do") == "undo":
            self.bench.undo()
        elif message.get("do") == "redo":
            self.bench.redo()
        elif message.get("do") == "clear":
            self.bench.take_back(())
        elif message.get("do") == "remove":
            # By text too: the list may have changed since the click.
            place, text = message.get("place"), message.get("text")
            texts = [item["text"] for item in self.strip.items]
            kept = (e for i, e in enumerate(self._edits) if (i, texts[i]) != (place, text))
            self.bench.take_back(tuple(kept))

    def _on_job(self, _widget: Any, message: dict[str, str], _buffers: Any) -> None:
        if message.get("do") == "stop":
            self.worker.stop()
        elif message.get("do") == "start" and not self.job.running:
            self.worker.start(self._next)

    def _open(self, given: Given) -> None:
        try:
            session = given.open()
            # Two may be ready at the same time; only the last one asked for is shown.
            with self._opening:
                if given is not self._asked:
                    return
                self._show(session, self.selection if self._is_chosen else None)
                self._given = given
                self._write_address()
                self.opener.opened += 1
                self._set.model(lambda count: count + 1)
                self.begin()
        # Nothing above this thread would see it, and the page would stay busy.
        except Exception as error:
            line = str(error) if isinstance(error, QuantscopeError) else mistake(error)
            if given is self._asked:
                with self.opener.hold_sync():
                    self.opener.busy, self.opener.error = False, line

    def _show(self, session: Session, selection: Selection | None) -> None:
        """Turn every widget to another session; without a selection, to its worst layer."""
        network = session.opened.network
        self._usual = worst_selection(session)
        chosen = fitting(selection, network) if selection else None
        shown = chosen or self._usual or first_selection(network)
        drawing = drawing_of(network)
        self.worker.stop()
        self._recent.append(session)
        self.session, self._edits = session, ()  # those in force were the other model's
        self.graph.drawing = drawing
        self._offer_ways()
        self.layers.rows = layer_rows(self.session)
        self.gallery.places = places(self.session)
        self._select_unasked(shown)
        self.bench.opened()
        if self.way.value == "run":
            self.bench.way_choice.value = "runtime"
        self.lab.refresh()
        self.bits.opened()
        with self.opener.hold_sync():
            self.opener.busy, self.opener.error = False, ""
            self.opener.model_path = session.opened.name
        self.chrome.title = printable(session.opened.name)
        self.refresh()

    def _offer_ways(self) -> None:
        """Offer the executions that the model has, where it has more than one to compare."""
        both = len(self.session.opened.executions) > 1 and self.session.opened.is_comparable
        self.way.options = list(WAYS) if both else []
        if not both:
            self.way.value = "stated"

    def _write_address(self) -> None:
        given = None if self._given == self._home else self._given
        place = Place(
            given,
            self.selection,
            self.tabs.tab,
            self.seen.compared_in,
            self._edits,
            self.graph.metric,
        )
        self.chrome.address = place.to_query(self.session.opened.network, self._usual)

    def _go(self, message: dict[str, Any]) -> None:
        """Show what the address says that the browser has gone back or forward to.

        Edits in force stay: going through them is what undo and redo are for.
        """
        place = Place.from_query(message.get("to", {}))
        chosen, network = place.selection, self.session.opened.network
        if chosen is None:
            self._is_chosen = False
            self._select_unasked(self._usual or first_selection(network))
        else:
            self.select(fitting(chosen, network))
        self.tabs.tab = place.tab
        self.graph.metric = place.colour
        self.graph.colour(metrics(self.seen))
        if self.way.options:
            self.way.value = _WAY_OF[place.execution]
        self._write_address()
        self.chrome.gone = int(message.get("n", 0))

    def _chose(self) -> None:
        """Note that somebody has selected something."""
        if not self._selects:
            self._is_chosen = True

    def _select_unasked(self, selection: Selection) -> None:
        self._selects = True
        try:
            self.select(selection)
        finally:
            self._selects = False

    def _select_worst(self) -> None:
        """Select the worst layer once it is known, unless somebody has selected another."""
        if self._usual is None:
            self._usual = worst_selection(self.session)
            if self._usual is not None and not self._is_chosen:
                self._select_unasked(self._usual)
            self._write_address()

    def _measure(self, progress: Progress) -> Iterator[None]:
        session = self.session
        self._next, self.job.offer = self._measure, "go on measuring"
        # The quick set first, so that every number is there within seconds; then the same of the
        # sample.
        yield from session.measure(session.quick, progress)
        yield from session.compare(session.quick, progress)
        yield from session.diagnose(session.quick, progress)
        yield from session.count_values(session.quick, progress)
        yield from session.measure(session.sample, progress)
        yield from session.compare(session.sample, progress)
        yield from session.diagnose(session.sample, progress)
        if self.way.value == "run":
            yield from self._compare_runtime(progress)
        yield from session.switch_layers(session.quick, progress)
        more = session.full_count > len(session.sample) and "images" not in session.failures
        self._next = self._measure_all
        self.job.offer = f"all {session.full_count:,} {session.noun}s" if more else ""

    def _measure_all(self, progress: Progress) -> Iterator[None]:
        yield from self.session.measure(self.session.full, progress)
        self.job.offer = ""


class Token:
    """An object that lives as long as the notebook's variables: one browser session."""


def token_for(page: Page) -> Token:
    """Close the page when its session ends. Marimo tells nobody, but it drops the variables."""
    token = Token()
    weakref.finalize(token, page.close)
    return token
