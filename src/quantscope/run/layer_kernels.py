"""The kernel map by the names of `Network`'s layers."""

from quantscope.model import Network
from quantscope.run.kernels import LayerKernel, kernel_map


def layer_kernels(network: Network, *, int8_kernels: bool | None = None) -> dict[str, LayerKernel]:
    """What onnxruntime's optimizer makes of each layer on this machine."""
    found = kernel_map(network.path, int8_kernels=int8_kernels).layers
    names = {layer.name for layer in network.layers}
    return {kernel.name: kernel for kernel in found if kernel.name in names}
