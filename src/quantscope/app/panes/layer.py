"""The selected layer in full."""

import marimo as mo

from quantscope.app.selection import Selection
from quantscope.app.session import Session
from quantscope.report.style import ThemeName


def show(session: Session, selection: Selection, *, theme: ThemeName) -> mo.Html:
    del session, theme
    return mo.Html(f'<h2 data-testid="layer-name">{selection.layer} {selection.tensor}</h2>')
