"""Layers cost something together: pairs that compensate or aggravate, and each one's fair share.

`pairs.py` switches the quantization of two layers at once, `shapley.py` that of all, in many
orders. `switches.py` measures what any set of layers costs, all sets of one graph at once
(`study/variants.py`); `results.py` is what comes of it.
"""

from quantscope.study.interactions.pairs import interactions
from quantscope.study.interactions.results import (
    Alone,
    Interactions,
    Kind,
    Pair,
    Shapley,
    ShapleyShare,
)
from quantscope.study.interactions.shapley import shapley

__all__ = [
    "Alone",
    "Interactions",
    "Kind",
    "Pair",
    "Shapley",
    "ShapleyShare",
    "interactions",
    "shapley",
]
