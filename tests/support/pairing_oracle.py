"""Whether pairs are right, by running both networks: what is paired must have the same values."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from quantscope.arithmetic import dequantize
from quantscope.model import Network
from quantscope.model.pairing import Pairing

Feed = Mapping[str, NDArray[np.float32]]


def values(path: Path, names: Iterable[str], feed: Feed) -> dict[str, NDArray[np.generic]]:
    """Any values of the graph, optimizations off."""
    proto = onnx.load(path)
    wanted = sorted(set(names) - set(feed))
    known = {output.name for output in proto.graph.output}
    for name in wanted:
        if name not in known:
            proto.graph.output.add().name = name
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return {**feed, **dict(zip(wanted, session.run(wanted, dict(feed)), strict=True))}


def sqnr_db(pairing: Pairing, float_path: Path, quantized: Network, feed: Feed) -> dict[str, float]:
    """Of every paired activation, the numbers after DQ against those of the float tensor."""
    pairs = [pair for pair in pairing.pairs if pair.role == "activation"]
    tensors = {pair.name: quantized.tensor(pair.name) for pair in pairs}
    read = {name: (*t.dequantized_names, *t.integer_names)[0] for name, t in tensors.items()}
    floats = values(float_path, [pair.float_name for pair in pairs], feed)
    renamed = {mine: feed[theirs] for mine, theirs in pairing.inputs}
    quants = values(quantized.path, read.values(), renamed)
    found = {}
    for pair in pairs:
        expected = floats[pair.float_name].astype(np.float64)
        got = quants[read[pair.name]]
        if got.dtype.kind in "iu":
            got = dequantize(got, tensors[pair.name].params)
        if pair.reshaped:
            got = got.reshape(expected.shape)
        assert got.shape == expected.shape, pair
        noise = float(np.linalg.norm(expected - got))
        signal = float(np.linalg.norm(expected))
        found[pair.name] = 20 * np.log10(signal / noise) if noise and signal else 200.0
    return found


def worst_rounding(pairing: Pairing, quantized: Network) -> dict[str, float]:
    """Of every paired weight and bias, its largest distance from the float values, in steps.

    What float32 cannot tell apart (a millionth of the largest value) is no distance.
    """
    found = {}
    for pair in pairing.pairs:
        tensor = quantized.tensor(pair.name)
        if pair.role == "activation" or not tensor.has_data:
            continue
        expected = pair.float_values()
        assert expected is not None, pair
        assert expected.shape == tensor.shape, pair
        error = np.abs(expected.astype(np.float64) - tensor.values())
        blur = 4e-6 * float(np.abs(expected).max())
        step = float(np.max(tensor.params.step))
        found[pair.name] = max(0.0, float(error.max()) - blur) / step
    return found


def scramble(proto: onnx.ModelProto, *, seed: int = 0) -> onnx.ModelProto:
    """The same model with names that tell nothing, no metadata, and its nodes in another order."""
    rng = random.Random(seed)
    new: dict[str, str] = {"": ""}

    def renamed(name: str) -> str:
        return new.setdefault(name, f"v{rng.getrandbits(60):x}")

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    graph = copy.graph
    for node in graph.node:
        node.name = f"n{rng.getrandbits(60):x}"
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
        del node.metadata_props[:]
    for value in [*graph.input, *graph.output, *graph.initializer]:
        value.name = renamed(value.name)
    del graph.value_info[:], copy.metadata_props[:]
    shuffled = _another_order(list(graph.node), rng)
    del graph.node[:]
    graph.node.extend(shuffled)
    return copy


def _another_order(nodes: list[onnx.NodeProto], rng: random.Random) -> list[onnx.NodeProto]:
    """A random one in which every node comes after those that it reads."""
    made = {name for node in nodes for name in node.output}
    waiting, done, order = list(nodes), set(), []
    while waiting:
        ready = [node for node in waiting if all(x in done or x not in made for x in node.input)]
        chosen = rng.choice(ready)
        waiting.remove(chosen)
        order.append(chosen)
        done.update(chosen.output)
    return order
