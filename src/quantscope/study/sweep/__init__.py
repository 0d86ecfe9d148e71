"""Many variants of one network on the same samples: what they have in common runs once.

`graph.py` puts the variants into one graph, `sweep.py` runs it and gives each one's outputs. Who
makes the variants (`study/sensitivity/`, `study/variants.py`, a diagnosis) gives them as graphs.
"""

from quantscope.study.sweep.sweep import Sweep, fitting_batch

__all__ = [
    "Sweep",
    "fitting_batch",
]
