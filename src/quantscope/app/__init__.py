"""The playground: one page on which a person sees, changes and understands a quantized network.

How it is put together
- `playground.py` is the page, a marimo notebook of thin, named cells; `style.css` places the cells
  in a grid by their names; `launch.py` starts it for `quantscope play`.
- `opened.py` is the model pair, `session.py` all that was found out about it (each result computed
  once, kept while bounded, shared by all pages of the process). Neither knows marimo.
- `page.py` is one browser page: widgets, selection, edits in force, the worker. Its `set_*` are
  marimo's setters; whatever reads `get_*` in the notebook runs again when they are called.
- `widgets/` are our anywidgets: one Python file and one JS file each, created once per page.
- `panes/` are functions from a session and a selection to `mo.Html`; `words.py` explains terms.

How a pane is added
1. `panes/NAME.py` with `show(session, selection, *, theme) -> mo.Html`. Everything slow goes
   through `session.result(key, make)` or, if it takes more than a second, through
   `page.start(what, work)`, which runs it in a thread with a progress bar and a stop button.
2. A cell `pane_NAME` in `playground.py` that begins with `mo.stop(get_tab() != "NAME")` and calls
   it, and the name in `TABS` of `page.py`. Widgets of the pane are made in a cell of their own.
3. A sentence in `words.py` for each new term, used as `word("term")` in the pane's HTML.
"""
