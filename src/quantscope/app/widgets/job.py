"""Show long work: what is being done, how far it is, a way to stop it, and the button for more."""

import anywidget
import traitlets

from quantscope.app.widgets.base import source, style


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
