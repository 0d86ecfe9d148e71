"""Hold what a person drags or clicks: small anywidgets, each created once per page.

`frame.py`, `lists.py`, `controls.py` and `graph.py` declare the traits that Python and the browser
share; the JS and CSS files are named after the class, and `common.js` stands before every one.
A new widget is a class in the file of its kind, its `.js`, and a `.css` if it needs one.
"""

from quantscope.app.widgets.controls import (
    Choice,
    Flips,
    HistRange,
    PtqForm,
    QParam,
    Recipes,
    Switches,
)
from quantscope.app.widgets.frame import Chrome, EditStrip, Job, Live, Opener, Tabs, TakeMenu
from quantscope.app.widgets.graph import GraphView, drawing_of
from quantscope.app.widgets.lists import FeatureMap, Gallery, Table, Thumbnails, TrialTable

__all__ = [
    "Choice",
    "Chrome",
    "EditStrip",
    "FeatureMap",
    "Flips",
    "Gallery",
    "GraphView",
    "HistRange",
    "Job",
    "Live",
    "Opener",
    "PtqForm",
    "QParam",
    "Recipes",
    "Switches",
    "Table",
    "Tabs",
    "TakeMenu",
    "Thumbnails",
    "TrialTable",
    "drawing_of",
]
