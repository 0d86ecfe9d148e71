"""Bits buy score: measure it for every pair of widths of a network's weights and activations.

How it is put together
- `cells.py` measures one cell, wherever a job runs.
- `ranges.py` chooses the ranges that go with the widths, once for all networks of a study.
- `estimate.py` says what a study will take, before it runs.
- `bit_map.py` runs the cells that its folder does not have yet, on any executor.
- `results.py` holds what came of it.
- `curves.py` gives each tensor other bits while all others stay as they are.
- `quantized.py` writes the model of one cell.
- `frontier.py` walks from all bits downwards, one tensor at a time, and measures what is left.

The network is calibrated once, at 8 bits; other widths keep its ranges (`SetBits`), so that what
differs between two cells is the number of bits and nothing else; or each width gets ranges of its
own, that cost least with so many bits.
"""

from quantscope.study.bits.bit_map import BITS, bit_map
from quantscope.study.bits.curves import BitCurve, BitCurves, CurvePoint, bit_curves
from quantscope.study.bits.estimate import Agree, Estimate, estimate
from quantscope.study.bits.frontier import Frontier, FrontierPoint, Saving, walk_frontier
from quantscope.study.bits.quantized import quantize_with_bits
from quantscope.study.bits.ranges import ChosenRanges, choose_ranges, edits_for
from quantscope.study.bits.results import BitCell, BitMap, Measured, Width

__all__ = [
    "BITS",
    "Agree",
    "BitCell",
    "BitCurve",
    "BitCurves",
    "BitMap",
    "ChosenRanges",
    "CurvePoint",
    "Estimate",
    "Frontier",
    "FrontierPoint",
    "Measured",
    "Saving",
    "Width",
    "bit_curves",
    "bit_map",
    "choose_ranges",
    "edits_for",
    "estimate",
    "quantize_with_bits",
    "walk_frontier",
]
