"""Run `quantscope inspect`: show a network or one of its layers."""

from typing import Annotated

import typer

from quantscope.cli.console import emit_json, show
from quantscope.cli.models import open_network, open_raw_nodes
from quantscope.cli.options import AnyModel, Json, Raw
from quantscope.cli.outputs import careful


@careful
def command(
    model: AnyModel,
    layer: Annotated[
        str | None, typer.Option(help="One layer in full: every channel, weights as integers.")
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Layers by module path instead of the tables.")
    ] = False,
    residuals: Annotated[
        bool, typer.Option("--residuals", help="Where branches meet: scales, bits lost.")
    ] = False,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Show a network: its layers, their cost, every quantized tensor with its parameters.

    Example: quantscope inspect resnet8-int8.onnx --layer stack2.conv1
    """
    from quantscope.errors import BadConfigError
    from quantscope.report import (
        Line,
        inspection,
        layer_inspection,
        layer_view,
        network_view,
        node_inspection,
        raw_lines,
    )

    views = {"--layer": layer is not None, "--tree": tree, "--residuals": residuals, "--raw": raw}
    chosen = [name for name, is_given in views.items() if is_given]
    if len(chosen) > 1:
        raise BadConfigError(f"{' and '.join(chosen)} are two views; choose one of them")
    if raw:
        nodes = open_raw_nodes(model)
        if as_json:
            emit_json(node_inspection(nodes))
        else:
            show(map(Line, raw_lines(nodes)))
        return
    network = open_network(model)
    one = network.layer(layer) if layer is not None else None
    if as_json:
        emit_json(layer_inspection(network, one) if one else inspection(network))
    elif one:
        show(layer_view(network, one))
    else:
        show(network_view(network, tree=tree, residuals=residuals))
