"""This module finds the float weights that a PT2E program's integers were rounded from."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model import Model, Network, Pairing, pair_networks
from quantscope.model.pairing import TensorPair
from quantscope.model.torch import read_stored
from quantscope.zoo import read_safetensors

Array = NDArray[Any]


def pair_with_floats(network: Network, original: Model) -> Pairing:
    """Pair a program with its float program or weights, so that float weights can be read."""
    program = original.as_program
    if program is None:
        return _pair_by_name(network, original)
    file, graph = program.file, program.graph
    found = pair_networks(original.network, network)

    def reader(each: TensorPair) -> Callable[[], Array | None] | None:
        stored = file.stored.get(graph.constants.get(each.float_name, ""))
        if each.role == "activation" or each.through or stored is None:
            return None
        return partial(read_stored, file, stored)

    return replace(
        found, pairs=tuple(replace(each, read_float=reader(each)) for each in found.pairs)
    )


def _pair_by_name(network: Network, original: Model) -> Pairing:
    """Pair with a file of weights, which has no graph: ResNet8's are called as the layers are.

    A file that matches no more than half of the constants is refused.
    """
    weights = read_safetensors(original.path)
    constants = [t for t in network.tensors if t.role != "activation"]
    known = [t for t in constants if t.name in weights and weights[t.name].shape == t.shape]
    if len(known) * 2 <= len(constants):
        raise BadModelError(
            f"{original.name} and {network.path.name} do not belong together: {len(known)} of "
            f"{len(constants)} weights have the name and shape of one of ResNet8's; "
            f"give the float model that {network.path.name} was made from"
        )
    return Pairing(
        float_model=original.name,
        float_digest=original.digest,
        quantized_model=network.path.name,
        quantized_digest=network.digest,
        pairs=tuple(
            TensorPair(
                name=tensor.name,
                role=tensor.role,
                float_name=tensor.name,
                layer=tensor.consumers[0] if tensor.consumers else None,
                float_layer=tensor.consumers[0] if tensor.consumers else None,
                found_by="weights",
                read_float=partial(np.asarray, weights[tensor.name]),
            )
            for tensor in known
        ),
        unpaired=(),
        layers=(),
        inputs=(),
        outputs=(),
    )
