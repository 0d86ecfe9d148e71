"""Place the nodes of a drawing: small boxes of one size, edges as curves between them."""

from threading import Lock
from typing import Any

from quantscope.report import Drawing

NODE_WIDTH, NODE_HEIGHT = 214.0, 26.0
_POINTS_AN_INCH = 72.0

# Graphviz keeps global state; pages open models in threads of their own.
_graphviz = Lock()


def lay_out(drawing: Drawing) -> dict[str, Any]:
    """Give `width`, `height`, centres `places` by key, and `curves` by link, as Béziers' points.

    All are in pixels, y downwards. A curve is a start point and then three points for each piece.
    """
    import pygraphviz

    with _graphviz:
        graph = pygraphviz.AGraph(string=_dot(drawing))
        graph.layout(prog="dot")
    left, bottom, right, top = (float(part) for part in graph.graph_attr["bb"].split(","))

    def point(text: str) -> tuple[float, float]:
        x, y = text.split(",")
        return round(float(x) - left, 1), round(top - float(y), 1)

    places = {node.key: point(graph.get_node(node.key).attr["pos"]) for node in drawing.nodes}
    curves = {}
    for edge in graph.edges():
        # Graphviz breaks long lines with a backslash, and marks arrow ends, which are not drawn.
        spline = edge.attr["pos"].replace("\\\n", "")
        parts = [part for part in spline.split() if not part.startswith(("e,", "s,"))]
        curves[int(edge.attr["id"])] = [point(part) for part in parts]
    return {
        "width": right - left,
        "height": top - bottom,
        "node_width": NODE_WIDTH,
        "node_height": NODE_HEIGHT,
        "places": places,
        "curves": [curves[place] for place in range(len(drawing.links))],
    }


def _dot(drawing: Drawing) -> str:
    # No labels, so no fonts: Graphviz would complain on stderr of those that it does not find.
    lines = [
        "digraph network {",
        "  graph [rankdir=TB, ranksep=0.26, nodesep=0.22];",
        f'  node [shape=box, label="", fixedsize=true, width={NODE_WIDTH / _POINTS_AN_INCH:.3f}, '
        f"height={NODE_HEIGHT / _POINTS_AN_INCH:.3f}];",
        "  edge [arrowhead=none];",
    ]
    lines += [f"  {node.key};" for node in drawing.nodes]
    for place, link in enumerate(drawing.links):
        # The main path is drawn straight, and shortcuts bend around it.
        weight = 1 if link.is_shortcut else 8
        settings = f'id="{place}", key="{place}", weight={weight}'
        lines.append(f"  {link.source} -> {link.target} [{settings}];")
    return "\n".join([*lines, "}"])
