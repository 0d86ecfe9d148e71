"""Write drawings as SVG, PNG, dot and HTML. Graphviz comes with pygraphviz's wheels."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from quantscope.errors import BadConfigError, MissingExtraError, QuantscopeError
from quantscope.plain_text import elide, printable
from quantscope.report.graph.dot import to_dot
from quantscope.report.graph.drawing import Drawing
from quantscope.report.graph.html import to_html

SUFFIXES = (".svg", ".png", ".dot", ".html")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_LONGEST_NAME = 500
_DPI = 144
_MOST_PIXELS = 30_000
"""The most pixels of a PNG's longer side; Cairo, which draws it, ends at 32,767."""


def render(drawing: Drawing, suffix: str) -> bytes:
    """Make the file's content for one of `SUFFIXES`."""
    if suffix == ".dot":
        return to_dot(drawing).encode()
    if suffix == ".svg":
        return to_svg(drawing)
    if suffix == ".png":
        return _png(drawing)
    if suffix == ".html":
        return to_html(drawing, to_svg(drawing).decode()).encode()
    raise BadConfigError(_unknown(suffix))


def to_svg(drawing: Drawing) -> bytes:
    """Lay the drawing out, with each node's and edge's full text as its title."""
    svg = _draw(_lay_out(drawing), "svg")
    return _add_titles(svg, drawing)


def _unknown(suffix: str) -> str:
    known = ", ".join(SUFFIXES)
    return f"A graph is written as {known}; {suffix or 'no suffix'!r} is not one of them"


def _png(drawing: Drawing) -> bytes:
    graph = _lay_out(drawing)
    box = [float(part) for part in graph.graph_attr["bb"].split(",")]
    # Graphviz gives its box in points, 72 an inch, without the margins.
    longest_inches = max(box[2] - box[0], box[3] - box[1]) / 72 + 1
    graph.graph_attr["dpi"] = f"{min(_DPI, _MOST_PIXELS / longest_inches):.0f}"
    return _draw(graph, "png")


def _lay_out(drawing: Drawing) -> Any:
    try:
        import pygraphviz
    except ImportError:
        raise MissingExtraError(
            "pygraphviz is needed to draw and is not installed; install it with: "
            "pip install pygraphviz, or write a .dot file"
        ) from None
    with _quiet():
        graph = pygraphviz.AGraph(string=to_dot(drawing))
        graph.layout(prog="dot")
    return graph


def _draw(graph: Any, kind: str) -> bytes:
    with _quiet():
        content = graph.draw(format=kind)
    if not content:
        raise QuantscopeError(f"Graphviz could not draw this as {kind}; try another format")
    return bytes(content)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what Graphviz and Fontconfig write to stderr, which a person can do nothing about."""
    sys.stderr.flush()
    try:
        # They write to the file descriptor, past Python's `sys.stderr`.
        kept = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    try:
        with tempfile.TemporaryFile() as sink:
            os.dup2(sink.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _add_titles(svg: bytes, drawing: Drawing) -> bytes:
    """Put full texts into the SVG as titles, and names for the page's search."""
    # Unregistered, every name would get a prefix, and a page would not take it for SVG.
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(svg)
    titles = {node.key: node.hover or printable(node.name) for node in drawing.nodes}
    titles |= {f"link{place}": link.hover for place, link in enumerate(drawing.links)}
    names = {node.key: elide(printable(node.name), _LONGEST_NAME) for node in drawing.nodes}
    for group in root.iter(f"{{{_SVG}}}g"):
        key = group.get("id", "")
        title = group.find(f"{{{_SVG}}}title")
        if title is not None:
            title.text = titles.get(key, drawing.title)
        if key in names:
            group.set("data-name", names[key])
        for link in group.iter(f"{{{_SVG}}}a"):
            # The title says the same.
            link.attrib.pop(f"{{{_XLINK}}}title", None)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
