"""This room finds the float tensor that each quantized tensor stands for, by structure, not name.

How it is put together
- `pairing.py` has the result, a `Pairing`, and the ways to it: `pair_models` for opened models,
  `pair_networks` for two networks, whose files it opens.
- `wiring.py` sees a network as values and layers by number; `layers.py` finds each layer's
  counterpart from `kinds.py` (what may be left out, folded or put in), `fit.py` (how well one layer
  can stand for another) and `constants.py` (whether the weights are alike).
- What shapes decide (`model/onnx/known.py`) is constant: an exporter's arithmetic on sizes.
- With the layers matched, `axes.py` follows the order of axes past moved Transposes, `places.py`
  finds the float tensor of each activation, and `parameters.py` the constant that each weight and
  bias was rounded from, after the folding of `folding.py`.

How something is added
- An operator that quantizers fold or leave out: its kind in `kinds.py` and, if numbers change,
  `folding.py`. Whatever stays without a counterpart is listed as `Unpaired`, with a reason that a
  person can read.
"""

from quantscope.model.pairing.constants import Constants, Sample, constants_of, weight_likeness
from quantscope.model.pairing.fit import UNLIKE
from quantscope.model.pairing.pairing import (
    LayerPair,
    Pairing,
    TensorPair,
    Unpaired,
    pair_models,
    pair_networks,
)

__all__ = [
    "UNLIKE",
    "Constants",
    "LayerPair",
    "Pairing",
    "Sample",
    "TensorPair",
    "Unpaired",
    "constants_of",
    "pair_models",
    "pair_networks",
    "weight_likeness",
]
