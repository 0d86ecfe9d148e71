"""A cure is what can be done for a quantized model, as edits: a function of a model and samples.

    found = correct_biases("resnet8-int8", calibration_set(256))
    found.edits, found.explanation, found.before, found.after

A cure changes nothing: it gives a frozen `Cure` whose `edits` are added to those in force, can be
taken back and saved in a recipe like any others, and make a model that gives what was shown.

How it is put together
- `results.py` has the values. `readings.py` reads layers of the model under edits, and of its float
  original, on calibration samples; `layer_errors.py` what lies between the two.
- `bias_correction.py` and `best_range.py` are a cure each (`range_choices.py` has what it
  chooses from, `outcome.py` tries edits by what the network gives).
- `equalization.py` rescales channels between layers; `readings.py` undoes it where it compares.
- `leave_float.py` takes the quantization of the layers that pay back.
- `rounding.py` is another: `gram.py` sums the products of a layer's inputs, `best_rounding.py`
  rounds weights so that what comes of them stays.
- `course.py` takes several, one after the other, and measures what each brings on other samples.

How something is added
- A cure: a module with a function `(model, samples, *, edits, float_model, progress) -> Cure`, its
  name here, and its line in `course.py`. One that does not apply raises `DoesNotApplyError` with
  the reason in one line.
"""

from quantscope.cure.best_range import RangeBy, choose_ranges
from quantscope.cure.bias_correction import correct_biases
from quantscope.cure.course import (
    CURES,
    Course,
    CureFunction,
    Step,
    check_apart,
    take_course,
)
from quantscope.cure.equalization import equalize
from quantscope.cure.layer_errors import LayerError
from quantscope.cure.leave_float import exclusion_list, leave_float
from quantscope.cure.readings import Readings
from quantscope.cure.results import Cure, DoesNotApplyError, LeftOut, Treated
from quantscope.cure.rounding import choose_rounding

__all__ = [
    "CURES",
    "Course",
    "Cure",
    "CureFunction",
    "DoesNotApplyError",
    "LayerError",
    "LeftOut",
    "RangeBy",
    "Readings",
    "Step",
    "Treated",
    "check_apart",
    "choose_ranges",
    "choose_rounding",
    "correct_biases",
    "equalize",
    "exclusion_list",
    "leave_float",
    "take_course",
]
