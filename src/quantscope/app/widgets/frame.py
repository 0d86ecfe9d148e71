"""This module declares the widgets around every pane: tabs, opener, edits, progress, hover help."""

from typing import Any

import anywidget
import traitlets

from quantscope.app.widgets.base import Selecting, source, style


class Chrome(Selecting):
    """The widget without a place of its own. Any element with `data-word` gets its explanation.

    `theme` is "light" or "dark", and empty until the browser has told it. A click on an element
    with `data-select`, a selection as JSON, selects it; one on an element with `data-ask` sends
    that message: `{"do": "opener", "field"}` opens the form, `{"do": "tab", "tab"}` turns to a tab,
    `{"do": "random"}` takes rows made at random, `{"do": "undo"}` and `"redo"` go through the
    edits: the keys Ctrl+Z, Ctrl+Shift+Z and Ctrl+Y send them. What the Diagnose tab offers it does
    itself.

    `topic` is the page of the help that was asked for, by "more" or by a link to a .md file, as
    `{page, n}`: `n` tells two clicks apart.

    `address` is what the browser's address says of the page, by key; what is empty is left out.
    After a step back or forward to an address of the same model it asks with `{"do": "go", "to":
    ..., "n": ...}`, and `gone` is the `n` of the last one that was followed.

    `title` is what the browser calls the page.
    """

    _esm = source("chrome")

    words = traitlets.Dict().tag(sync=True)
    theme = traitlets.Unicode("").tag(sync=True)
    topic = traitlets.Dict().tag(sync=True)
    address = traitlets.Dict().tag(sync=True)
    gone = traitlets.Int(0).tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)


class Tabs(anywidget.AnyWidget):
    """The bar. `tab` is the name that was clicked last."""

    _esm = source("tabs")
    _css = style("tabs")

    names: traitlets.List[Any] = traitlets.List().tag(sync=True)
    tab = traitlets.Unicode("").tag(sync=True)


class Opener(anywidget.AnyWidget):
    """The form. It asks with `{"do": "open", "model": ..., "float_model": ..., "data": ...}`."""

    _esm = source("opener")
    _css = style("opener")

    bundled: traitlets.List[Any] = traitlets.List().tag(sync=True)
    model_path = traitlets.Unicode("").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
    opened = traitlets.Int(0).tag(sync=True)
    """The number of models that were opened: the form closes when it grows."""
    given = traitlets.Dict().tag(sync=True)
    """The things that are open, as `{model, float, data}`: the form begins with it."""
    asked = traitlets.Dict().tag(sync=True)
    """The field that a line of the page wants filled in, as `{field, n}`: the form opens there."""


class EditStrip(anywidget.AnyWidget):
    """The list of edits. `items` are `{text, warning, select}`; a click on the text selects that.

    It asks with `{"do": "remove", "place": ..., "text": ...}`, `"clear"`, `"undo"` and `"redo"`.

    `numbers` is what the edits do, as `{label, value, delta, note, stale}`; empty while it is not
    known. They are `stale` while those of other edits are on their way.
    """

    _esm = source("edit_strip")
    _css = style("edit_strip")

    items: traitlets.List[Any] = traitlets.List().tag(sync=True)
    numbers = traitlets.Dict().tag(sync=True)
    can_undo = traitlets.Bool(False).tag(sync=True)
    can_redo = traitlets.Bool(False).tag(sync=True)


class Job(anywidget.AnyWidget):
    """The progress of a `Worker`. Commands are messages, `{"do": "stop"}` and `{"do": "start"}`.

    Traits would be merged. How far it is, is shown while `done` is less than `total`; work that has
    counted to its end but still runs, or does not count (`total` 0), is shown as going on, without
    a number.
    """

    _esm = source("job")
    _css = style("job")

    what = traitlets.Unicode("").tag(sync=True)
    done = traitlets.Int(0).tag(sync=True)
    total = traitlets.Int(0).tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    offer = traitlets.Unicode("").tag(sync=True)
    """The button's text when idle; empty hides it."""
    error = traitlets.Unicode("").tag(sync=True)


class TakeMenu(anywidget.AnyWidget):
    """The menu that copies and saves what a tab shows; tables it finds in the page by itself.

    It asks with `{"do": "list", "n"}`, answered by `listed`, `{n, items, name}` with items as
    `{what, command, python, why}`, and with `{"do": "figure", "id", "format", "n"}`, answered by
    `saved`, `{n, name, mime, content}` in base64, or `{n, error}`.
    """

    _esm = source("take_menu")
    _css = style("take_menu")

    listed = traitlets.Dict().tag(sync=True)
    saved = traitlets.Dict().tag(sync=True)


class Live(anywidget.AnyWidget):
    """A piece of HTML. It is trusted: what comes from a model or a person was escaped before."""

    _esm = source("live")

    html = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)
    """It says whether something newer is on its way."""
