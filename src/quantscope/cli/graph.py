"""Run `quantscope graph`: draw a network into a file."""

from pathlib import Path
from typing import Annotated

import typer

from quantscope.cli.console import console, emit_json
from quantscope.cli.models import open_network, open_raw_nodes
from quantscope.cli.options import AnyModel, Json, Raw
from quantscope.cli.outputs import Writes, careful

_MANY = 150


@careful
def command(
    model: AnyModel,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write: .svg, .png, .dot or .html."),
        Writes(".svg", ".png", ".dot", ".html"),
    ],
    raw: Raw = False,
    overlay: Annotated[
        Path | None,
        typer.Option(help="Colour the layers by a result: the JSON of another command."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="The column that colours, such as sqnr_db. Without --overlay one of the "
            "network's own: macs, weight_bytes, live_bytes."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw a network: layers, their weights' scales, and what flows between them.

    Example: quantscope graph resnet8-int8.onnx -o resnet8.html --metric macs
    """
    from quantscope.errors import BadConfigError
    from quantscope.files import write_whole
    from quantscope.report.graph import draw_network, draw_nodes, make_overlay, read_overlay, render

    if raw and (overlay or metric):
        raise BadConfigError("--overlay and --metric colour layers; --raw draws nodes")
    if raw:
        drawing = draw_nodes(open_raw_nodes(model))
    else:
        network = open_network(model)
        colours = None
        if overlay:
            colours = read_overlay(overlay, network, metric)
        elif metric:
            own = network.to_dict()["layers"]
            colours = make_overlay(own, network, metric, source=network.path.name)
        drawing = draw_network(network, overlay=colours)
    content = render(drawing, output.suffix.lower())
    write_whole(output, content)
    if as_json:
        emit_json({"path": str(output), "nodes": len(drawing.nodes), "edges": len(drawing.links)})
        return
    console.print(
        f"Wrote {output}: {len(drawing.nodes):,} nodes, {len(drawing.links):,} edges", markup=False
    )
    if len(drawing.nodes) > _MANY and output.suffix.lower() != ".html":
        console.print(
            "So many are easier to find in an .html file, which has a search", markup=False
        )
