"""Draw networks: drawings as values first, then as files.

How it is put together
- `drawing.py` is the value: nodes, links, colours and a legend, with every text that is shown.
- `network_graph.py` draws a network by its layers, or the nodes of an ONNX file as they are;
  `overlay.py` is a column of another command's JSON that colours the layers.
- `formats.py` turns a drawing into a file's content: `dot.py` for Graphviz, which lays it out,
  `html.py` for a page that pans, zooms and searches.
- `module_tree.py` is a network as a tree of its modules, for text.

How a format is added
1. A function from a `Drawing` to text, in a module of its own, that escapes every name.
2. Its suffix in `SUFFIXES` and `render` of `formats.py`, and in the `Writes` of `cli/graph.py`.
"""

from quantscope.report.graph.drawing import Drawing
from quantscope.report.graph.formats import render
from quantscope.report.graph.module_tree import Branch, module_tree
from quantscope.report.graph.network_graph import draw_network, draw_nodes
from quantscope.report.graph.overlay import Overlay, make_overlay, read_overlay

__all__ = [
    "Branch",
    "Drawing",
    "Overlay",
    "draw_network",
    "draw_nodes",
    "make_overlay",
    "module_tree",
    "read_overlay",
    "render",
]
