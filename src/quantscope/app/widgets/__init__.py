"""Hold what a person drags or clicks: small anywidgets, each created once per page.

`frame.py`, `lists.py`, `controls.py` and `graph.py` declare the traits that Python and the browser
share; the JS and CSS files are named after the class, and `common.js` stands before every one.
A new widget is a class in the file of its kind, its `.js`, and a `.css` if it needs one.
"""

from quantscope.app.widgets.frame import Chrome, EditStrip, Job, Opener, Tabs
from quantscope.app.widgets.graph import Graph
from quantscope.app.widgets.lists import Gallery, Table

__all__ = ["Chrome", "EditStrip", "Gallery", "Graph", "Job", "Opener", "Table", "Tabs"]
