"""Hold what a person drags or clicks: small anywidgets, each created once per page.

Each is one Python file and one JS file; `common.js` stands before every one of them.
"""

from quantscope.app.widgets.chrome import Chrome
from quantscope.app.widgets.edit_strip import EditStrip
from quantscope.app.widgets.gallery import Gallery
from quantscope.app.widgets.graph import Graph
from quantscope.app.widgets.job import Job
from quantscope.app.widgets.opener import Opener
from quantscope.app.widgets.table import Table
from quantscope.app.widgets.tabs import Tabs

__all__ = ["Chrome", "EditStrip", "Gallery", "Graph", "Job", "Opener", "Table", "Tabs"]
