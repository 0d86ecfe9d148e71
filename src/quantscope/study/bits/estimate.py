"""Say what a study of bits will take before it runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from quantscope.data import Samples
from quantscope.model import Execution, Model
from quantscope.run import gather_outputs, open_runnable

_PROBED = 64


@dataclass(frozen=True)
class Estimate:
    """The networks that are still to be measured, each on all samples, and the time that takes.

    Memory is that of one network at a time, however many there are.
    """

    networks: int
    samples: int
    seconds: float


Agree = Callable[[Estimate], None]
"""A function that is told an estimate, and raises if that is too much."""


def estimate(
    model: Model, samples: Samples, networks: int, *, execution: Execution, threads: int = 0
) -> Estimate:
    """Run the network on a few samples, and tell how long so many like it take on all of them."""
    few = samples.take(min(_PROBED, len(samples)))
    runnable = open_runnable(model, execution=execution, threads=threads)
    gather_outputs(runnable, few)  # what is done but once
    began = time.perf_counter()
    gather_outputs(runnable, few)
    each = (time.perf_counter() - began) / len(few) * len(samples)
    return Estimate(networks, len(samples), networks * each)
