"""Results and networks as text, tables, figures and drawings: values first, then their looks.

Figures are in modules of their own, because matplotlib is slow to load.
"""

from quantscope.report.graph.drawing import Drawing
from quantscope.report.graph.module_tree import module_tree
from quantscope.report.graph.network_graph import draw_network, draw_nodes
from quantscope.report.graph.overlay import Overlay, make_overlay, read_overlay
from quantscope.report.graph.render import render
from quantscope.report.inspect_json import inspection, layer_inspection, node_inspection
from quantscope.report.network_text import (
    activation_table,
    constant_table,
    layer_table,
    network_facts,
    residual_table,
)
from quantscope.report.raw_nodes import read_raw_nodes
from quantscope.report.table import Table

__all__ = [
    "Drawing",
    "Overlay",
    "Table",
    "activation_table",
    "constant_table",
    "draw_network",
    "draw_nodes",
    "inspection",
    "layer_inspection",
    "layer_table",
    "make_overlay",
    "module_tree",
    "network_facts",
    "node_inspection",
    "read_overlay",
    "read_raw_nodes",
    "render",
    "residual_table",
]
