"""How the values of a tensor are spread: float beside quantized, counted exactly.

`histograms.py` is the way in and `question.py` what is asked, and of what. `series.py` says how one
tensor is counted, `counts.py` counts, `results.py` is what comes of it.
`floats.py` counts the float values alone, for what other ranges would cost.
"""

from quantscope.run.histograms.floats import float_histograms
from quantscope.run.histograms.histograms import histograms, weight_histogram
from quantscope.run.histograms.question import ValueReader
from quantscope.run.histograms.results import Histogram, Histograms, Series, SeriesName

__all__ = [
    "Histogram",
    "Histograms",
    "Series",
    "SeriesName",
    "ValueReader",
    "float_histograms",
    "histograms",
    "weight_histogram",
]
