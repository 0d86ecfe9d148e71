"""Serve the playground: a page on which a quantized network is seen, changed and understood.

How it is put together
- `playground.py` is the page, a marimo notebook of thin, named cells; `style.css` places the cells
  in a grid by their names; `launch.py` starts it for `quantscope play`, behind the doors of
  `doors.py`, which let in nobody but the person who started it.
- `opened.py` is the model pair, `session.py` all that was found out about it (each result computed
  once, kept while bounded, shared by all pages of the process). Neither knows marimo.
- `page.py` is one browser page: widgets, selection, edits in force, the worker. It has marimo's
  setters; whatever reads the `get_*` of the notebook runs again when one of them is called.
- `place.py` is what the page's address says of it: a reload or a link shows the same again.
- `widgets/` are our anywidgets: a class and a JS file each, created once per page.
- `editing/` has the edits in force: their history, what gestures make of them, the edited file.
- `panes/` is what the tabs show; `painter.py` draws their figures in a thread, into one gallery.
- `words.py` has a sentence for each term.
- `reproduce.py` writes what gives a number again, as a command (`spelling.py` has its options) and
  as Python; the menu of `panes/take.py` copies it, and saves the tables and figures of any tab.

How a pane is added
1. `panes/NAME.py` with `show(session, selection) -> mo.Html` and, for figures, `wanted(session,
   ...) -> list[Wanted]`. Results come from `session` (`comparison`, `accuracies`, `histogram`, ...)
   or through `session.result(key, make)`, which computes once. A pane with widgets of its own is a
   class that makes them, is created by `Page`, and follows `page.refresh`.
2. What may take more than a second runs in a `Worker` with a `Job`: progress, a stop button, and
   `news` called in a thread whose setters reach the page.
3. A cell `pane_NAME` in `playground.py` that begins with `mo.stop(get_tab() != "NAME")`, and the
   name in `TABS` of `place.py`. Pictures: `page.paint(wanted)` there, and the name in `pictures`.
4. What gives its numbers again: a line for the tab in `panes/take.py`, a function in
   `reproduce.py`, and its test, which runs what is copied.
5. Names that select: `parts.select_button(selection, text)`; terms: `word("term")`.

`page.seen` is the session with the comparison of the execution that the person looks at, as the
file states the network or as this CPU runs it.

The selection is `get_selection() or page.selection`; to set it, `page.select(...)`. Edits in force
are `get_edits()` and `page.set_edits(...)`; what they do, the answers of `page.bench`.
"""
