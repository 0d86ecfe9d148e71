"""Share the whole loss of a quantized network out among its layers, fairly.

A layer's Shapley value is what its quantization adds to the loss, averaged over all orders in which
the layers can be quantized one after the other. In each order what all add is the whole loss, so
the shares add up to it whether some orders were drawn or all.
"""

import itertools
from collections.abc import Mapping, Sequence
from math import factorial, sqrt

import numpy as np
from numpy.typing import NDArray

from quantscope.data import SamplesSource
from quantscope.edit import Off
from quantscope.errors import BadConfigError
from quantscope.model import Execution, ModelSource
from quantscope.progress import Progress, silent
from quantscope.run import Estimate, MeasureSource
from quantscope.study.interactions.results import Shapley, ShapleyShare
from quantscope.study.interactions.switches import MOST_SECONDS, Losses, Switches

Order = tuple[int, ...]
MOST_ORDERS = 100_000


def shapley(
    model: ModelSource,
    samples: SamplesSource,
    orders: int,
    *,
    float_model: ModelSource | None = None,
    measure: MeasureSource | None = None,
    layers: Sequence[str] | None = None,
    int8_kernels: bool | None = None,
    batch: int | None = None,
    threads: int = 0,
    seed: int = 0,
    most_seconds: float | None = MOST_SECONDS,
    progress: Progress = silent,
) -> Shapley:
    """Quantize the layers one after the other in `orders` different orders, drawn with `seed`.

    All orders are taken where there are no more. A set of layers that several orders pass is
    measured once. With `layers` only theirs is shared out, and all others stay quantized. Losses
    are kept for every variant and sample, 16 bytes each.
    """
    if not 1 <= orders <= MOST_ORDERS:
        raise BadConfigError(
            f"--shapley takes 1 to {MOST_ORDERS:,} orders, not {orders:,}; more make the standard "
            f"errors smaller"
        )
    switches = Switches.open(
        model,
        samples,
        float_model=float_model,
        measure=measure,
        layers=layers,
        execution=_EXECUTION,
        int8_kernels=int8_kernels,
        batch=batch,
        threads=threads,
        progress=progress,
    )
    names = switches.names
    chosen = draw_orders(len(names), orders, seed)
    sets = sorted(_passed(chosen))
    switches.check_time(len(sets), most_seconds)
    variants = [
        (str(place), [Off(name) for name, on in zip(names, switched, strict=True) if not on])
        for place, switched in enumerate(sets)
    ]
    found = switches.losses(variants, what="Quantizing layers in turn", progress=progress)
    losses = {sets[int(place)]: each for place, each in found}
    # The shares add up only where every variant has a number for a sample.
    known = np.logical_and.reduce([~np.isnan(each) for each in losses.values()])
    losses = {key: np.where(known, each, np.nan) for key, each in losses.items()}
    whole = switches.estimates(losses[(True,) * len(names)] - losses[(False,) * len(names)])
    by_sample, errors = _shares(chosen, losses)
    shares = [switches.estimates(each) for each in by_sample]
    ranks = _ranks([loss if switches.by_score else noise for loss, noise in shares])
    return Shapley(
        **switches.facts(),
        loss=whole[0],
        noise=whole[1],
        orders=len(chosen),
        is_exact=len(chosen) == factorial(len(names)),
        seed=seed,
        variants=len(sets),
        shares=tuple(
            ShapleyShare(
                layer=name,
                op_type=op_type,
                loss=shares[place][0],
                loss_standard_error=errors[place][0],
                noise=shares[place][1],
                noise_standard_error=errors[place][1],
                rank=ranks[place],
            )
            for place, (name, op_type) in enumerate(switches.targets.found)
        ),
    )


_EXECUTION: Execution = "reference"  # float layers between quantized ones run no integer kernel


def draw_orders(layers: int, count: int, seed: int) -> list[Order]:
    """Draw different orders of the layers; all of them where there are no more."""
    if factorial(layers) <= count:
        return list(itertools.permutations(range(layers)))
    rng = np.random.default_rng(seed)
    found: dict[Order, None] = {}
    while len(found) < count:
        found[tuple(rng.permutation(layers).tolist())] = None
    return list(found)


def _passed(orders: Sequence[Order]) -> set[tuple[bool, ...]]:
    """Give every set of quantized layers that an order passes, as a flag for each layer."""
    found = set()
    for order in orders:
        on = [False] * len(order)
        found.add(tuple(on))
        for layer in order:
            on[layer] = True
            found.add(tuple(on))
    return found


def _shares(
    orders: Sequence[Order], losses: Mapping[tuple[bool, ...], Losses]
) -> tuple[list[Losses], list[tuple[float | None, float | None]]]:
    """Give what each layer adds to each sample on average over the orders, and standard errors."""
    layers = len(orders[0])
    shape = next(iter(losses.values())).shape
    by_sample = [np.zeros(shape) for _ in range(layers)]
    by_order = np.zeros((layers, len(orders), len(shape)))
    for place, order in enumerate(orders):
        on = [False] * layers
        before = losses[tuple(on)]
        for layer in order:
            on[layer] = True
            after = losses[tuple(on)]
            by_sample[layer] += (after - before) / len(orders)
            by_order[layer, place] = [_mean(each) for each in after - before]
            before = after
    # Orders are drawn without putting them back: those that are left are all the doubt there is.
    left = 1 - len(orders) / factorial(layers)
    errors = [(_error(each[:, 0], left), _error(each[:, 1], left)) for each in by_order]
    return by_sample, errors


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _error(values: NDArray[np.float64], left: float) -> float | None:
    """Give the standard error of the mean over orders; `left` is the share that was not drawn."""
    if np.isnan(values).any():
        return None
    if left <= 0:
        return 0.0
    return float(values.std(ddof=1)) * sqrt(left / len(values)) if len(values) > 1 else None


def _ranks(found: Sequence[Estimate | None]) -> dict[int, int]:
    values = [-np.inf if one is None else one.value for one in found]
    order = sorted(range(len(values)), key=lambda place: (-values[place], place))
    return {place: rank for rank, place in enumerate(order, start=1)}
