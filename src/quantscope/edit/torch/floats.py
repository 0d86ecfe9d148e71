"""The float weights that a PT2E program's integers were rounded from. Needs no torch."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.errors import BadModelError
from quantscope.model import Network, Pairing, pair
from quantscope.model.pairing import TensorPair
from quantscope.model.provenance import recorded_facts
from quantscope.model.reader import TORCH_SUFFIXES
from quantscope.model.torch import open_pt2, program_graph, read_pt2, read_stored
from quantscope.zoo import bundled_models, find_model, read_safetensors

Array = NDArray[Any]

_SUFFIXES = (*TORCH_SUFFIXES, ".safetensors")


def known_float_program(network: Network, given: str | Path | None) -> Path | None:
    """The given float model, or the bundled weights that the program says it was made from."""
    if given is not None:
        path = find_model(given)
        if path.suffix not in _SUFFIXES:
            raise BadModelError(
                f"{path.name} is no program or weights of PyTorch, but {network.path.name} is; "
                f"give its float model as .pt2 or .safetensors (bundled: resnet8-torch)"
            )
        return path
    digest = (recorded_facts(network.metadata) or {}).get("float_model_digest")
    for path in bundled_models().values():
        if (
            path.suffix == ".safetensors"
            and hashlib.sha256(path.read_bytes()).hexdigest() == digest
        ):
            return path
    return None


def paired_with(network: Network, float_path: Path) -> Pairing:
    """The pairing, whose weights can be read."""
    if float_path.suffix == ".safetensors":
        return _paired_by_name(network, float_path)
    file = open_pt2(float_path)
    graph = program_graph(file)
    found = pair(read_pt2(file), network)

    def reader(each: TensorPair) -> Callable[[], Array | None] | None:
        stored = file.stored.get(graph.constants.get(each.float_name, ""))
        if each.role == "activation" or each.through or stored is None:
            return None
        return partial(read_stored, file, stored)

    return replace(
        found, pairs=tuple(replace(each, read_float=reader(each)) for each in found.pairs)
    )


def _paired_by_name(network: Network, path: Path) -> Pairing:
    """ResNet8's weights are called as the layers are that read them."""
    weights = read_safetensors(path)
    constants = [t for t in network.tensors if t.role != "activation"]
    known = [t for t in constants if t.name in weights and weights[t.name].shape == t.shape]
    if len(known) * 2 <= len(constants):
        raise BadModelError(
            f"{path.name} and {network.path.name} do not belong together: {len(known)} of "
            f"{len(constants)} weights have the name and shape of one of ResNet8's; "
            f"give the float model that {network.path.name} was made from"
        )
    return Pairing(
        float_model=path.name,
        float_digest=hashlib.sha256(path.read_bytes()).hexdigest(),
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
