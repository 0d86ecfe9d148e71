"""Find what every two layers cost together beyond what they cost alone."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quantscope.data import SamplesSource
from quantscope.edit import Edit, Off, On
from quantscope.errors import BadConfigError
from quantscope.model import Execution, ModelSource
from quantscope.progress import Progress, silent
from quantscope.run import MeasureSource
from quantscope.study.interactions.results import SURE, Alone, Interactions, Kind, Pair
from quantscope.study.interactions.switches import MOST_SECONDS, Losses, Switches
from quantscope.study.sensitivity import RowMode


def interactions(
    model: ModelSource,
    samples: SamplesSource,
    *,
    float_model: ModelSource | None = None,
    measure: MeasureSource | None = None,
    mode: RowMode = "enable",
    layers: Sequence[str] | None = None,
    execution: Execution = "reference",
    int8_kernels: bool | None = None,
    batch: int | None = None,
    threads: int = 0,
    most_seconds: float | None = MOST_SECONDS,
    progress: Progress = silent,
) -> Interactions:
    """Switch every two layers' quantization at once, and see whether their costs add up.

    `mode` "disable" switches them off in the quantized network, "enable" on in the float one, all
    else off. The measure is what the samples allow, as `sensitivity` chooses it, with the noise of
    the outputs beside it, which shows what no class does. `layers` are the only ones switched. More
    than `most_seconds`, by a plain run's time, are refused; None takes any time.
    """
    if execution == "runtime" and mode == "enable":
        raise BadConfigError(
            "Two quantized layers between float ones run no integer kernel; use --execution "
            "reference, or --mode disable"
        )
    switches = Switches.open(
        model,
        samples,
        float_model=float_model,
        measure=measure,
        layers=layers,
        execution=execution,
        int8_kernels=int8_kernels,
        batch=batch,
        threads=threads,
        progress=progress,
    )
    names = switches.names
    if len(names) < 2:
        raise BadConfigError(
            f"Only {', '.join(names)} of {switches.bench.base.model} can be switched, which makes "
            f"no pair"
        )
    everything: list[Edit] = [Off(name) for name in names]
    start = everything if mode == "enable" else []

    def switched(*chosen: str) -> list[Edit]:
        return [*start, *((On if mode == "enable" else Off)(name) for name in chosen)]

    pairs = list(itertools.combinations(names, 2))
    few = [(), names, *((name,) for name in names)]
    sets: list[tuple[str, ...]] = [*few, *pairs]
    variants = [
        (str(place), [] if chosen == names and mode == "enable" else switched(*chosen))
        for place, chosen in enumerate(sets)
    ]
    switches.check_time(len(variants), most_seconds)
    kept: dict[int, Losses] = {}
    found: list[Pair] = []
    for key, losses in switches.losses(variants, what="Switching pairs", progress=progress):
        place = int(key)
        if place < len(few):
            kept[place] = losses
            continue
        first, second = pairs[place - len(few)]
        # Switched on or off, it is the same second difference: a cost's change by the other layer.
        beyond = losses - kept[2 + names.index(first)] - kept[2 + names.index(second)] + kept[0]
        loss, noise = switches.estimates(beyond)
        found.append(Pair(first, second, loss, noise, None, None))
    sign = 1.0 if mode == "enable" else -1.0
    whole = switches.estimates(sign * (kept[1] - kept[0]))
    return Interactions(
        **switches.facts(),
        loss=whole[0],
        noise=whole[1],
        mode=mode,
        alone=tuple(
            Alone(name, op_type, *switches.estimates(sign * (kept[place] - kept[0])))
            for place, (name, op_type) in enumerate(switches.targets.found, start=2)
        ),
        pairs=_judged(found, by_score=switches.by_score),
    )


def _judged(pairs: Sequence[Pair], *, by_score: bool) -> tuple[Pair, ...]:
    """Say which pairs stand out of all: one of twenty would by chance if each stood for itself."""
    counted = [pair.loss if by_score else pair.noise for pair in pairs]
    given = [1.0 if c is None or c.p_value is None else c.p_value for c in counted]
    judged = []
    for pair, one, p in zip(pairs, counted, holm(given), strict=True):
        if one is None or one.p_value is None:
            judged.append(pair)
            continue
        kind: Kind | None = None
        if p < SURE and one.value != 0:
            kind = "aggravate" if one.value > 0 else "compensate"
        judged.append(replace(pair, adjusted_p=p, kind=kind))
    return tuple(judged)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for as many tests as there are, by Holm's step-down method."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    largest = 0.0
    for done, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[place]))
        adjusted[place] = largest
    return [float(p) for p in adjusted]
