"""The account of a loss: what comes back with parts float, and which layers hold most of it."""

from dataclasses import dataclass
from math import log10

from quantscope.diagnose.bench import Bench
from quantscope.diagnose.results import Account, LayerShare
from quantscope.edit import Editor, Off, parts_of
from quantscope.errors import BadModelError
from quantscope.run import Comparison

MOST_LAYERS = 6
"""The layers that are switched off, each alone: those that add most error of their own."""
_INPUT = "Input"


@dataclass(frozen=True)
class Candidates:
    """The layers and inputs that can be switched off, by operator, and those that are measured."""

    op_types: dict[str, str]
    own_noise: dict[str, float]
    chosen: tuple[str, ...]


def layer_candidates(editor: Editor, comparison: Comparison) -> Candidates:
    """Choose the layers whose own error is largest for their output."""
    network = editor.network
    noise = own_noise(comparison)
    op_types: dict[str, str] = {}
    own: dict[str, float] = {}
    for tensor in network.tensors:
        if tensor.role == "activation" and tensor.producer is None and tensor.name in noise:
            op_types[tensor.name], own[tensor.name] = _INPUT, noise[tensor.name]
    for layer in network.layers:
        found = [noise[part.name] for part in parts_of(network, layer) if part.name in noise]
        if found:
            op_types[layer.name], own[layer.name] = layer.op_type, max(found)
    ranked = sorted(own, key=lambda name: -own[name])
    chosen: list[str] = []
    for name in ranked:
        if len(chosen) == MOST_LAYERS:
            break
        try:
            editor.preview([Off(name)])
        except BadModelError:
            continue
        chosen.append(name)
    return Candidates(op_types, own, tuple(chosen))


def own_noise(comparison: Comparison) -> dict[str, float]:
    """Give the energy that each activation's own layer adds, over that of its signal.

    It is what the error sources leave when what was inherited is taken away. A weight's error shows
    at its layer's output, so it is not counted twice.
    """
    found: dict[str, float] = {}
    for row in comparison.activations:
        if row.sqnr_db is None:
            continue
        noise = 10.0 ** (-row.sqnr_db / 10)
        if row.sources is not None:
            noise *= max(1.0 - row.sources.inherited, 0.0)
        elif row.local_sqnr_db is not None:
            noise = 10.0 ** (-row.local_sqnr_db / 10)
        found[row.name] = noise
    return found


def make_account(bench: Bench, candidates: Candidates, *, names: tuple[str, ...]) -> Account:
    """Put the account together from what a bench has run under these names."""
    weights, activations, both, layer = names
    shares = [
        LayerShare(
            name,
            candidates.op_types[name],
            bench.gain_of(layer + name),
            own_sqnr_db(candidates.own_noise[name]),
        )
        for name in candidates.chosen
    ]
    runtime = bench.outputs("runtime")
    return Account(
        floats=bench.score(bench.floats),
        quantized=bench.score(bench.base),
        runtime=bench.score(runtime),
        loss=bench.gain(bench.floats),
        weights_off=bench.gain_of(weights),
        activations_off=bench.gain_of(activations),
        both_off=bench.gain_of(both),
        kernels=bench.gain(runtime),
        layers=tuple(sorted(shares, key=_importance)),
        layers_in_all=len(candidates.op_types),
    )


def own_sqnr_db(noise: float) -> float | None:
    """Give the signal over the layer's own error in dB; None where it adds none."""
    return -10 * log10(noise) if noise > 0 else None


def _importance(share: LayerShare) -> tuple[float, ...]:
    # A handful of changed samples would rank layers by chance; the SQNR of all outputs does not.
    change = share.gain.sqnr_change_db
    sure = share.gain.helps
    return 0 if sure else 1, -share.gain.value if sure else 0.0, -(change or 0.0)
