"""Samples are harmed: those that many quantized variants of a network answer otherwise.

Where a model tells classes apart, a sample is harmed by a variant that puts it into another class
than the float model does; where it does not, by what its score loses. `find.py` takes evaluations
or a study, `answers.py` counts, `results.py` is what comes of it.
"""

from quantscope.study.harm.find import find_harm, harm_of_study, write_harm
from quantscope.study.harm.results import Harm, HarmedClass, HarmedSample

__all__ = ["Harm", "HarmedClass", "HarmedSample", "find_harm", "harm_of_study", "write_harm"]
