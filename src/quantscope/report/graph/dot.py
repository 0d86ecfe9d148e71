"""Write a drawing in Graphviz's dot language. Every name is escaped; keys are the drawing's own."""

from collections.abc import Iterator
from html import escape

from quantscope.plain_text import elide, printable
from quantscope.report.graph.drawing import Drawing, Kind, Legend, Link, Node
from quantscope.report.wording import number

INK, FAINT, PAPER = "#1b1f24", "#5f6873", "#ffffff"
LINE, SHORTCUT, MISSING = "#6b7480", "#d55e00", "#d6d9dd"
FONT = "Helvetica,Arial,sans-serif"
_LONGEST_NAME = 40
_STEPS = 32

# Fill and frame by what a layer does; the type stands in the node, so no colour is needed to read.
FILLS: dict[Kind, tuple[str, str]] = {
    "compute": ("#e3eefa", "#4a83bd"),
    "join": ("#fdeedb", "#d08a2e"),
    "pool": ("#e2f3ec", "#45987a"),
    "function": ("#f2e9f7", "#9a6cb4"),
    "move": ("#f1f3f5", "#a3abb4"),
    "quantizer": ("#fbfbe6", "#b3ab4a"),
    "port": ("#ffffff", "#1b1f24"),
    "other": ("#f7f7f8", "#a3abb4"),
}


def to_dot(drawing: Drawing) -> str:
    return "\n".join(["digraph network {", *_statements(drawing), "}", ""])


def colour_of(value: float | None, legend: Legend) -> str:
    """Choose from purple to yellow (viridis), which all kinds of colour vision tell apart.

    None is grey; where all values are equal they get the middle colour.
    """
    if value is None:
        return MISSING
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    span = legend.high - legend.low
    return str(to_hex(colormaps["viridis"]((value - legend.low) / span if span else 0.5)))


def _statements(drawing: Drawing) -> Iterator[str]:
    yield (
        f'  graph [rankdir=TB, ranksep=0.18, nodesep=0.35, bgcolor="{PAPER}", pad=0.25, '
        f'labelloc=t, labeljust=l, fontname="{FONT}", label=<{_heading(drawing)}>];'
    )
    yield (
        f'  node [shape=box, style="rounded,filled", margin="0.1,0.045", height=0.2, '
        f'penwidth=1, fontname="{FONT}", fontcolor="{INK}"];'
    )
    yield (
        f'  edge [arrowsize=0.6, penwidth=1.1, color="{LINE}", fontname="{FONT}", '
        f'fontsize=8.5, fontcolor="{FAINT}"];'
    )
    for node in drawing.nodes:
        yield _node(node, drawing.legend)
    for place, link in enumerate(drawing.links):
        yield _link(link, place)


def _node(node: Node, legend: Legend | None) -> str:
    fill, frame = FILLS[node.kind]
    ink, faint = INK, FAINT
    if legend is not None and node.kind != "port":
        fill = colour_of(node.value, legend)
        ink = faint = ink_on(fill)
        frame = fill if node.value is not None else FAINT
    is_dashed = node.kind == "port" or (legend is not None and node.value is None)
    shape = 'style="filled,rounded,dashed", ' if is_dashed else ""
    hover = _quote(node.hover or printable(node.name))
    return (
        f'  {node.key} [id="{node.key}", class="{node.kind}", {shape}fillcolor="{fill}", '
        f'color="{frame}", fontcolor="{ink}", tooltip={hover}, '
        f"label=<{_label(node, faint, legend)}>];"
    )


def _label(node: Node, faint: str, legend: Legend | None) -> str:
    """Write a node as an HTML-like table: name and corner on top, the other lines below."""
    name = _text(elide(printable(node.name), _LONGEST_NAME) or "(no name)")
    corner = _text(elide(printable(node.corner), 32))
    rows = [
        f'<tr><td align="left"><font point-size="11"><b>{name}</b></font></td>'
        f'<td width="10"></td><td align="right"><font point-size="9" color="{faint}">'
        f"{corner}</font></td></tr>"
    ]
    lines = list(node.lines)
    if legend is not None and node.kind != "port":
        metric = elide(printable(legend.metric), _LONGEST_NAME)
        lines.append(
            "no value" if node.value is None else f"{metric} {_amount(node.value, legend)}"
        )
    for place, line in enumerate(lines):
        size = "9.5" if not place else "8.5"
        rows.append(
            f'<tr><td align="left" colspan="3"><font point-size="{size}" color="{faint}">'
            f"{_text(line)}</font></td></tr>"
        )
    return (
        '<table border="0" cellborder="0" cellspacing="0" cellpadding="1">'
        + "".join(rows)
        + "</table>"
    )


def _link(link: Link, place: int) -> str:
    parts = [f'id="link{place}"', f"tooltip={_quote(link.hover or link.label or ' ')}"]
    parts.append(f"edgetooltip={_quote(link.hover or link.label or ' ')}")
    if link.label:
        parts.append(
            f'label=<<table border="0" cellpadding="1"><tr><td>{_text(link.label)}'
            "</td></tr></table>>"
        )
    classes = []
    if link.is_shortcut:
        # Without weight it bends around the main path, which stays straight.
        parts.append(f'color="{SHORTCUT}", penwidth=2.2, fontcolor="{SHORTCUT}", weight=0')
        classes.append("shortcut")
    else:
        parts.append("weight=6")
    if link.is_float and link.label:
        parts.append("style=dashed")
        classes.append("float")
    if classes:
        parts.append(f'class="{" ".join(classes)}"')
    return f"  {link.source} -> {link.target} [{', '.join(parts)}];"


def _heading(drawing: Drawing) -> str:
    title = _text(elide(drawing.title, 60))
    rows = [f'<font point-size="15" color="{INK}"><b>{title}</b></font>']
    rows += [
        f'<font point-size="9" color="{FAINT}">{_text(line)}</font>'
        for line in drawing.subtitle.splitlines()
    ]
    if any(link.is_shortcut for link in drawing.links):
        rows.append(f'<font point-size="9" color="{SHORTCUT}"><b>━━</b> residual path</font>')
    cells = "".join(f'<tr><td align="left">{row}</td></tr>' for row in rows)
    if drawing.legend is not None:
        cells += f'<tr><td align="left">{_legend(drawing.legend)}</td></tr>'
    cells += '<tr><td height="10"></td></tr>'
    return f'<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{cells}</table>'


def _legend(legend: Legend) -> str:
    ends = (legend.low, legend.high)
    steps = [ends[0] + (ends[1] - ends[0]) * i / (_STEPS - 1) for i in range(_STEPS)]
    bar = "".join(
        f'<td width="5" height="10" bgcolor="{colour_of(step, legend)}"></td>' for step in steps
    )
    small = f'<font point-size="9" color="{INK}">'
    missing = ""
    if legend.missing:
        missing = (
            f'<td width="14"></td><td width="10" height="10" fixedsize="true" bgcolor="{MISSING}">'
            f"</td><td>{small} no value ({legend.missing:,})</font></td>"
        )
    low, high = (_amount(end, legend) for end in ends)
    metric = elide(printable(legend.metric), _LONGEST_NAME)
    return (
        '<table border="0" cellborder="0" cellspacing="0" cellpadding="0"><tr>'
        f"<td>{small}<b>{_text(metric)}</b>  {_text(low)} </font></td>{bar}"
        f"<td>{small} {_text(high)}</font></td>{missing}</tr></table>"
    )


def ink_on(colour: str) -> str:
    """Choose black or white, whichever is read better on the colour (WCAG's relative luminance)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    # Near 0.18 black and white have the same contrast.
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def _amount(value: float, legend: Legend) -> str:
    """Write a value with its unit: `23.41 dB`, `2,359,296`."""
    text = f"{value:,.0f}" if value == int(value) and abs(value) < 1e12 else number(value)
    return f"{text} {legend.unit}".rstrip()


def _text(text: str) -> str:
    """Escape markup, and double backslashes: dot puts its own names in for `\\N` and `\\G`."""
    return escape(text, quote=True).replace("\\", "\\\\") or " "


def _quote(text: str) -> str:
    """Quote a tooltip, in which dot looks for its escapes twice."""
    lines = [_text(line).replace("\\", "\\\\") for line in text.splitlines()]
    return '"' + "\\n".join(lines) + '"'
