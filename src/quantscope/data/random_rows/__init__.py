"""Rows made for a model, where nobody has any: the same on every machine for one seed.

- `shapes.py` gives each input the shape of a row: sizes that the model leaves open come from the
  person, or from what is usual for an input of its kind, which is then said.
- `values.py` fills them: ids within their table, masks of ones, smooth pictures and waveforms.
- `numbers.py` draws the numbers without a function that differs between machines.

No accuracy may be claimed from them: `Samples.is_random` is set, and they have no labels.
"""

from quantscope.data.random_rows.rows import random_samples

__all__ = ["random_samples"]
