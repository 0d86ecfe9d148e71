"""Draw the network: pan, zoom, keyboard, and colours by a metric that the person picks."""

from typing import Any

import traitlets

from quantscope.app.layout import lay_out
from quantscope.app.metrics import Metric
from quantscope.app.place import select_layer
from quantscope.app.widgets.base import Selecting, source, style
from quantscope.model import Network
from quantscope.report import draw_network


class GraphView(Selecting):
    """The drawn network. `selection` and `metric` come from either side, all else from Python."""

    _esm = source("graph")
    _css = style("graph")

    drawing = traitlets.Dict().tag(sync=True)
    metrics: traitlets.List[Any] = traitlets.List().tag(sync=True)
    metric = traitlets.Unicode("sqnr").tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    """The model that the metrics are of, where that is not plain."""

    def colour(self, found: tuple[Metric, ...]) -> None:
        """Show these metrics; the chosen one stays if it is still among them."""
        keys = [metric.key for metric in found]
        if self.metric not in keys and keys:
            self.metric = keys[0]
        self.metrics = [metric.to_dict() for metric in found]


def drawing_of(network: Network) -> dict[str, Any]:
    """Give nodes with places, and links with curves, as the browser draws them."""
    drawing = draw_network(network)
    placed = lay_out(drawing)
    layers = {f"layer{index}": layer for index, layer in enumerate(network.layers)}
    inputs = {f"input{index}": operand for index, operand in enumerate(network.inputs)}
    nodes = []
    for node in drawing.nodes:
        selects = None
        if layer := layers.get(node.key):
            selects = select_layer(layer).to_dict()
        elif (port := inputs.get(node.key)) and port.quant:
            selects = {"layer": "", "tensor": port.quant.name}
        nodes.append(
            {
                "key": node.key,
                "name": node.name,
                "type": layers[node.key].op_type if node.key in layers else "",
                "kind": node.kind,
                "hover": node.hover,
                "place": placed["places"][node.key],
                "selects": selects,
            }
        )
    links = [
        {
            "source": link.source,
            "target": link.target,
            "hover": link.hover,
            "shortcut": link.is_shortcut,
            "float": link.is_float and network.is_quantized,
            "curve": curve,
        }
        for link, curve in zip(drawing.links, placed["curves"], strict=True)
    ]
    size = {key: placed[key] for key in ("width", "height", "node_width", "node_height")}
    return {"nodes": nodes, "links": links, **size}
