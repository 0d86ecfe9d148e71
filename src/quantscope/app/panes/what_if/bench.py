"""The What-if pane of one page: its widgets, and what a person's gestures do to the edits."""

from collections.abc import Hashable, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import marimo as mo

from quantscope.app import editing as gestures
from quantscope.app.editing import Edits, History, history_of, keep_history
from quantscope.app.panes.what_if import pane, pictures
from quantscope.app.panes.what_if.answers import (
    Answer,
    Answers,
    RunChoice,
    answer_on,
    editor_of,
    flip_groups,
    join_answers,
)
from quantscope.app.panes.what_if.recipes import Keeping
from quantscope.app.panes.what_if.specs import (
    Situation,
    hist_data,
    off_in,
    qparam_spec,
)
from quantscope.app.panes.what_if.switches import edit_items, parts_for, switch_items
from quantscope.app.session import Session
from quantscope.app.widgets import Choice, Flips, HistRange, Job, Live, QParam, Switches
from quantscope.app.words import EXECUTIONS
from quantscope.app.worker import Worker
from quantscope.data import Samples
from quantscope.edit import Applied, EditedRole, Editor
from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.plain_text import many
from quantscope.progress import Progress
from quantscope.report.figures import ThemeName

if TYPE_CHECKING:
    from quantscope.app.page import Page

TAB = "What if"


class Workbench:
    """Its widgets are made once; other models, selections and edits are new traits of them."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.answer: Answer | None = None
        self.history = History()
        self.params, self.hist, self.switches = QParam(), HistRange(), Switches()
        self.way_choice, self.flips = Choice(label="How it is run"), Flips()
        self.effect, self.said = Live(), Live()
        self.full = Job()
        self.worker = Worker(self.full, lambda: None)
        self.answers = Answers(self._publish)
        self.keeping = Keeping(self)
        self._applied: Applied | None = None
        self._seen = 0
        self.left_out = ""
        """A line that says why the edits that a page began with are not in force."""
        self._refused = ("", "")
        # Findings arrive in threads of their own, gestures in the kernel's.
        self._showing = RLock()
        self.views = {name: mo.ui.anywidget(widget) for name, widget in self._widgets().items()}
        self.save_recipe, self.save_model = self.keeping.downloads()
        self._wire()

    @property
    def session(self) -> Session:
        return self.page.session

    @property
    def editor(self) -> Editor:
        return editor_of(self.session)

    @property
    def way(self) -> RunChoice:
        execution, _, int8 = self.way_choice.value.partition("-")
        if execution == "runtime":
            return RunChoice("runtime", True if int8 else None)
        return RunChoice()

    @property
    def applied(self) -> Applied:
        """The model with the edits in force, made once for all that ask."""
        about, known = (self.session.opened.network.digest, self.page.edits), self._applied
        if known is None or (known.base_digest, known.edits) != about:
            known = self._applied = self.editor.apply(self.page.edits)
        return known

    @property
    def situation(self) -> Situation:
        return Situation(self.session, self.editor, self.applied, self.page.selection)

    @property
    def is_open(self) -> bool:
        return self.page.tabs.tab == TAB and not pane.why_not(self.session)

    def opened(self) -> None:
        """Another pair is shown; what was in force for it is in force again."""
        self.worker.stop()
        self.answer = self._applied = None
        self.flips.groups = []
        self.effect.html = pane.numbers_html(None)
        self.said.html = ""
        self._offer_ways()
        edits = self._fitting(self.page.kept_edits())
        self.history = history_of(self.session.opened, edits)
        self.page.set_edits(edits)
        self.keeping.opened()

    def _fitting(self, edits: Edits) -> Edits:
        """Give the edits of an address if the model takes them, else none."""
        self.left_out = ""
        if not edits:
            return ()
        if not (why := pane.why_not(self.session)):
            try:
                self._applied = self.editor.apply(edits)
            except QuantscopeError as error:
                why = str(error)
            else:
                return edits
        self.left_out = f"The edits of the address are not in force: {why}"
        return ()

    def visit(self) -> None:
        """The tab was opened, or another pair in it."""
        if self.is_open:
            self.refresh()
            if self.answer is None or self.answer.edits != self.page.edits:
                self._ask()

    def refresh(self) -> None:
        """Selection or findings changed: show what the controls are for now."""
        if self.is_open:
            self._show()

    def edited(self) -> None:
        """Other edits are in force."""
        self.worker.stop()
        edits = self.page.edits
        with self.page.strip.hold_sync():
            if not edits:
                self.page.strip.numbers = {}
            elif self.page.strip.numbers:
                # Until their own numbers are there, those of the edits before look it.
                self.page.strip.numbers = {**self.page.strip.numbers, "stale": "yes"}
            self.page.strip.items = edit_items(self.session, self.applied) if edits else []
            self.page.strip.can_undo = bool(self.history)
            self.page.strip.can_redo = self.history.can_redo
        keep_history(self.session.opened, edits, self.history)
        if edits or self.is_open:
            self._ask()
        self.keeping.edited()

    def put(self, edits: Edits, gesture: Hashable = None) -> str:
        """Put these in force if they can be applied; else a line that says why not.

        The controls are shown anew by who asked, with that line where it belongs.
        """
        if edits == self.page.edits:
            return ""
        try:
            applied = self.editor.apply(edits)
        except QuantscopeError as error:
            return str(error)
        self.put_applied(applied, gesture)
        return ""

    def put_applied(self, applied: Applied, gesture: Hashable = None) -> None:
        """Put edits in force that `editor` has applied."""
        if applied.edits == self.page.edits:
            return
        self._applied = applied
        self.history.keep(self.page.edits, gesture)
        self._refused = ("", "")
        self.page.set_edits(applied.edits)

    def take_back(self, edits: Edits) -> None:
        """Fewer edits, from the strip; what is left may not fit together any more."""
        refusal = self.put(edits)
        if refusal:
            self.page.strip.numbers = {**self.page.strip.numbers, "note": refusal}
        self.refresh()

    def undo(self) -> None:
        """Back to what was in force before the last gesture."""
        if self.history:
            self._go(self.history.undo(self.page.edits))

    def redo(self) -> None:
        """Forth to what the last undo has left."""
        if self.history.can_redo:
            self._go(self.history.redo(self.page.edits))

    def _go(self, edits: Edits) -> None:
        self.page.set_edits(edits)
        self.refresh()

    def paint(self, theme: ThemeName) -> None:
        if self.page.tabs.tab == TAB:
            # None of a model that cannot be edited: those of the one before would stay.
            answer = self.answer if self.is_open else None
            self.page.paint(pictures.wanted(answer, theme=theme) if answer else [])

    def close(self) -> None:
        self.worker.stop()
        self.answers.close()
        for widget in self._widgets().values():
            widget.close()

    def _widgets(self) -> dict[str, Any]:
        return {
            "params": self.params,
            "hist": self.hist,
            "switches": self.switches,
            "way": self.way_choice,
            "flips": self.flips,
            "effect": self.effect,
            "said": self.said,
            "full": self.full,
            "recipes": self.keeping.widget,
        }

    def _wire(self) -> None:
        self.params.observe(lambda _: self._on_params(), names="edit")
        self.hist.observe(lambda change: self._on_range(change["new"]), names="edit")
        self.switches.on_msg(self._on_switch)
        self.way_choice.observe(lambda _: self._ask(), names="value")
        self.full.on_msg(self._on_full)

    def _ask(self) -> None:
        if pane.why_not(self.session):
            return
        self.full.offer = self._more_than(self.session.quick)
        self.flips.busy = self.effect.busy = True
        try:
            applied = self.applied
        except QuantscopeError as error:
            self._publish(Answer(self.session, self.page.edits, self.way, error=str(error)))
            return
        self.answers.ask(self.session, applied, self.way)

    def _publish(self, answer: Answer) -> None:
        """Show an answer, in its own thread; while something moves it trails the edits in force."""
        if answer.session is not self.session or answer.way != self.way:
            return
        self.answer = answer = join_answers(self.answer, answer)
        is_latest = answer.edits == self.page.edits
        if answer.edits and self.page.edits:
            stale = {} if is_latest else {"stale": "yes"}
            self.page.strip.numbers = {**pane.strip_numbers(answer), **stale}
        self.effect.html = pane.numbers_html(answer)
        self.said.html = pane.say_html(answer)
        if answer.effect is not None and answer.images is not None:
            self.flips.groups = flip_groups(answer.effect.against_base, answer.images)
        elif answer.effect is None:
            self.flips.groups = []
        self.flips.busy = self.effect.busy = not is_latest
        if answer.settled or answer.effect is None:
            self.paint(cast(ThemeName, self.page.chrome.theme or "light"))

    def _show(self) -> None:
        with self._showing:
            try:
                at = self.situation
            except QuantscopeError as error:
                self.params.spec = {"tensor": "", "locked": str(error), "seen": self._seen}
                return
            tensor, refusal = self._refused
            refusal = refusal if tensor == at.selection.tensor else ""
            self.params.spec = qparam_spec(at, seen=self._seen, refusal=refusal)
            # A refused gesture changes nothing but this: the browser must still hear of it.
            answered = {"seen": self._seen, "range_seen": self.hist.edit.get("n", 0)}
            self.hist.data = {**hist_data(at), **answered}
            with self.switches.hold_sync():
                self.switches.main, self.switches.layers = switch_items(at)

    def _offer_ways(self) -> None:
        options = []
        if "reference" in self.session.opened.executions:
            options.append(
                {"key": "reference", "label": EXECUTIONS["reference"], "word": "reference"}
            )
        if "runtime" in self.session.opened.executions:
            options.append({"key": "runtime", "label": EXECUTIONS["runtime"], "word": "runtime"})
            tensors = self.session.opened.network.tensors
            if any(t.role == "activation" and t.params.dtype == "int8" for t in tensors):
                label = "with int8 kernels"
                options.append({"key": "runtime-int8", "label": label, "word": "int8_kernels"})
        self.way_choice.options = options
        if self.way_choice.value not in [option["key"] for option in options]:
            self.way_choice.value = options[0]["key"] if options else ""

    def _on_params(self) -> None:
        for step in self.params.unseen():
            self._refused = (step["tensor"], self._gesture(step))
            self._seen = step["n"]
        self._show()

    def _on_range(self, edit: dict[str, Any]) -> None:
        self._refused = (edit["tensor"], self._gesture({"what": "range", **edit}))
        self._show()

    def _gesture(self, step: dict[str, Any]) -> str:
        """Put what a step asks for in force, or refuse it with a line."""
        at = self.situation
        tensor = at.named(step.get("tensor"))
        if tensor is None:
            return ""
        try:
            edits = gestures.edits_after(step, at.edits, tensor, at.params(tensor))
        except BadConfigError as error:
            return str(error)
        return self.put(edits, (tensor.name, step["what"], step.get("channel")))

    def _on_switch(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if message.get("do") != "switch":
            return
        kind, key, on = str(message["kind"]), str(message["key"]), bool(message["on"])
        parts = parts_for(self.situation, kind, key)
        editor = self.editor

        def is_off(edits: Edits) -> list[bool]:
            off = off_in(editor.preview(edits).changes)
            return [part in off for part in parts]

        try:
            if kind == "role":
                role = cast(EditedRole, key)
                found = gestures.switch_role(self.page.edits, role, on=on, is_off=is_off)
            else:
                found = gestures.switch(self.page.edits, key, on=on, is_off=is_off)
            self.switches.error = self.put(found)
        except QuantscopeError as error:
            self.switches.error = str(error)
        self._show()

    def _on_full(self, _widget: Any, message: dict[str, str], _buffers: Any) -> None:
        if message.get("do") == "stop":
            self.worker.stop()
        elif message.get("do") == "start" and not self.full.running:
            self.worker.start(self._measure_all)

    def _more_than(self, images: Samples) -> str:
        """Say what the button offers next; nothing where there are no more images."""
        session = self.session
        if len(images) < len(session.sample):
            return f"on {many(len(session.sample), session.noun)}"
        more = session.full_count > len(images)
        return f"on all {session.full_count:,} {session.noun}s" if more else ""

    def _measure_all(self, progress: Progress) -> Iterator[None]:
        """The whole sample; asked again, all test images."""
        session, way, shown, applied = self.session, self.way, self.answer, self.applied
        edits = applied.edits
        has_sample = (
            shown is not None
            and (shown.edits, shown.way) == (edits, way)
            and shown.images is session.sample
        )
        images = session.full if has_sample else session.sample
        found = answer_on(images, session, applied, way, progress)
        if (session, edits, way) == (self.session, self.page.edits, self.way):
            self.full.offer = self._more_than(images)
            self._publish(found)
        yield
