"""`quantscope inspect`"""

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from quantscope.cli.console import console, emit_json
from quantscope.cli.models import open_network, open_raw_nodes
from quantscope.cli.options import AnyModel, Json, Raw
from quantscope.cli.outputs import careful

if TYPE_CHECKING:
    from quantscope.model import Layer, Network, QuantTensor
    from quantscope.report.graph.module_tree import Branch
    from quantscope.report.raw_nodes import RawGraph
    from quantscope.report.table import Fact, Table


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
    from quantscope.report.inspect_json import inspection, layer_inspection, node_inspection

    views = {"--layer": layer is not None, "--tree": tree, "--residuals": residuals, "--raw": raw}
    chosen = [name for name, is_given in views.items() if is_given]
    if len(chosen) > 1:
        raise BadConfigError(f"{' and '.join(chosen)} are two views; choose one of them")
    if raw:
        nodes = open_raw_nodes(model)
        if as_json:
            emit_json(node_inspection(nodes))
        else:
            _show_nodes(nodes)
        return
    network = open_network(model)
    one = network.layer(layer) if layer is not None else None
    if as_json:
        emit_json(layer_inspection(network, one) if one else inspection(network))
    elif one:
        _show_layer(network, one)
    else:
        _show_network(network, tree=tree, residuals=residuals)


def _show_network(network: "Network", *, tree: bool, residuals: bool) -> None:
    from quantscope.plain_text import printable
    from quantscope.report.graph.module_tree import module_tree
    from quantscope.report.network_text import (
        activation_table,
        constant_table,
        layer_table,
        network_facts,
        residual_table,
    )
    from quantscope.report.provenance_text import provenance_facts

    console.print(printable(network.path.name), markup=False, style="bold")
    _show_facts((*network_facts(network), *provenance_facts(network)))
    if tree:
        console.print()
        _show_tree(_rich_tree(module_tree(network)))
        return
    if residuals:
        tables = [residual_table(network)]
        if not tables[0].rows:
            console.print("\nNo Add, Sub or Concat of quantized branches in it", markup=False)
    else:
        tables = [layer_table(network), activation_table(network), constant_table(network)]
    for table in tables:
        _show_table(table)


def _show_layer(network: "Network", layer: "Layer") -> None:
    from quantscope.plain_text import printable
    from quantscope.report.layer_text import (
        channel_table,
        layer_facts,
        layer_tensors,
        slice_table,
        tensor_facts,
    )

    console.print(printable(layer.name), markup=False, style="bold")
    _show_facts(layer_facts(network, layer))
    for tensor in layer_tensors(layer):
        console.print(f"\n{printable(tensor.name)}  {tensor.role}", markup=False, style="bold")
        _show_facts(tensor_facts(tensor))
        if not tensor.params.is_per_tensor:
            _show_table(channel_table(tensor))
        if tensor.has_data and tensor.integers().size and not _is_listed(tensor):
            _show_table(slice_table(tensor))


def _is_listed(tensor: "QuantTensor") -> bool:
    """A bias with a scale for each value: the channels' table has shown them all."""
    return tensor.params.scale.size == tensor.integers().size and not tensor.params.is_per_tensor


def _show_nodes(nodes: "RawGraph") -> None:
    from quantscope.report.raw_nodes import raw_lines

    for line in raw_lines(nodes):
        console.print(line, markup=False)


def _show_facts(facts: "Iterable[Fact]") -> None:
    from quantscope.report.table import fact_lines

    for label, text in fact_lines(facts, _width()):
        console.print(Text.assemble((label, "dim"), text))


def _show_table(table: "Table") -> None:
    if not table.rows:
        return
    console.print(f"\n{table.title}", markup=False, style="bold")
    has_headings = any(column.heading for column in table.columns)
    for place, line in enumerate(table.lines(_width())):
        console.print(Text(line), style="dim" if has_headings and not place else "")


def _width() -> int | None:
    """Fit a terminal; into a file or a pipe go whole lines, so that names can be searched."""
    return console.width if console.is_terminal else None


def _show_tree(tree: Tree) -> None:
    if console.is_terminal:
        console.print(tree, soft_wrap=False)
        return
    wide = Console(file=io.StringIO(), width=10_000, highlight=False, color_system=None)
    with wide.capture() as captured:
        wide.print(tree)
    for line in captured.get().splitlines():
        console.print(Text(line.rstrip()))


def _rich_tree(branch: "Branch") -> Tree:
    tree = Tree(_branch_text(branch), guide_style="dim")
    for child in branch.children:
        _grow(tree, child)
    return tree


def _grow(tree: Tree, branch: "Branch") -> None:
    inner = tree.add(_branch_text(branch))
    for child in branch.children:
        _grow(inner, child)


def _branch_text(branch: "Branch") -> Text:
    return Text.assemble((branch.label, "bold"), "  ", (branch.text, "dim"))
