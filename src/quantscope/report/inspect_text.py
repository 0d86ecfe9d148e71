"""Show a network, or one of its layers, as `quantscope inspect` does: facts, then tables."""

from collections.abc import Iterator

from quantscope.model import Layer, Network, QuantTensor
from quantscope.plain_text import printable
from quantscope.report.graph import Branch, module_tree
from quantscope.report.layer_text import (
    channel_table,
    layer_facts,
    layer_tensors,
    slice_table,
    tensor_facts,
)
from quantscope.report.network_text import (
    activation_table,
    constant_table,
    layer_table,
    network_facts,
    residual_table,
)
from quantscope.report.provenance_text import provenance_facts
from quantscope.report.table import Fact, Line, Table

Part = Line | tuple[Fact, ...] | Table | Branch


def network_view(
    network: Network, *, tree: bool = False, residuals: bool = False
) -> Iterator[Part]:
    """Show a network's facts, then its tables, or instead its tree or where branches meet."""
    yield Line(printable(network.path.name), "strong")
    yield (*network_facts(network), *provenance_facts(network))
    if tree:
        yield Line()
        yield module_tree(network)
    elif residuals:
        found = residual_table(network)
        if not found.rows:
            yield Line()
            yield Line("No Add, Sub or Concat of quantized branches in it")
        yield found
    else:
        yield layer_table(network)
        yield activation_table(network)
        yield constant_table(network)


def layer_view(network: Network, layer: Layer) -> Iterator[Part]:
    """Show a layer's facts, then each of its quantized tensors in full."""
    yield Line(printable(layer.name), "strong")
    yield tuple(layer_facts(network, layer))
    for tensor in layer_tensors(layer):
        yield Line()
        yield Line(f"{printable(tensor.name)}  {tensor.role}", "strong")
        yield tuple(tensor_facts(tensor))
        if not tensor.params.is_per_tensor:
            yield channel_table(tensor)
        if tensor.has_data and tensor.integers().size and not _is_listed(tensor):
            yield slice_table(tensor)


def _is_listed(tensor: QuantTensor) -> bool:
    """Tell whether the channels' table has shown every value: a bias with a scale for each."""
    return tensor.params.scale.size == tensor.integers().size and not tensor.params.is_per_tensor
