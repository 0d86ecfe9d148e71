"""A diagnosis says what is wrong with a quantized model, why, and what can be tried.

How it is put together
- `diagnose.py` is the way in. It runs one comparison, whose numbers are the `Evidence`
  (`evidence.py`, `sample_ends.py`), asks every kind of finding (`findings/`) what it sees there,
  and measures the account (`account.py`) and what each finding costs in one sweep (`bench.py`).
- `origin.py` reads how the model was made, `calibrated.py` and `input_stats.py` look at its
  calibration samples, `kernels.py` runs what ships or predicts it for another CPU,
  `attempts.py` tries what the findings propose. `results.py` is what comes of it.

How something is added
- A kind of finding: see `findings/__init__.py`.
- A remedy: edits, options of `PtqConfig`, other calibration samples or a cure, in the finding that
  proposes it.
"""

from quantscope.diagnose.account import own_noise
from quantscope.diagnose.attempts import remedy_config
from quantscope.diagnose.diagnose import diagnose, rank
from quantscope.diagnose.findings import KINDS
from quantscope.diagnose.kernels import waits_for_option
from quantscope.diagnose.results import (
    Account,
    Attempt,
    Diagnosis,
    Finding,
    Gain,
    LayerShare,
    Place,
    Remedy,
)

__all__ = [
    "KINDS",
    "Account",
    "Attempt",
    "Diagnosis",
    "Finding",
    "Gain",
    "LayerShare",
    "Place",
    "Remedy",
    "diagnose",
    "own_noise",
    "rank",
    "remedy_config",
    "waits_for_option",
]
