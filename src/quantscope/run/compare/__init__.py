"""A float and a quantized network on the same samples, tensor by tensor.

How it is put together
- `joint_run.py` has the protocol: a `JointRun` runs both networks and gives sums between them;
  `compare.py` drives it. `sources.py` says where an error can come from, `sums.py` how values are
  summed, `pivots.py` how of values far from zero.
- `statistics.py` says what the sums mean, `scores.py` what the outputs have in common, `weights.py`
  what rounding did to constants; `results.py` is what comes of it, `reading.py` what stands out.
- `side_by_side.py` compares two quantized versions. `rescaled.py` names what has other units.

How something is added
- A statistic: a row of sums in both implementations (`run/onnx/compare`, `run/torch/probes.py`),
  and what it means in `statistics.py`.
"""

from quantscope.run.compare.compare import (
    Observer,
    compare,
    compare_run,
    pair_comparable,
    small_batch,
)
from quantscope.run.compare.joint_run import (
    ONLY_SQNR,
    Constants,
    Detail,
    JointBatch,
    JointRun,
    Probe,
    ProbeSums,
)
from quantscope.run.compare.pivots import moved_to_zero
from quantscope.run.compare.reading import flag_tensors, from_another, reading, usual
from quantscope.run.compare.rescaled import RESCALED
from quantscope.run.compare.results import (
    BlockErrors,
    ChannelComparison,
    Comparison,
    ErrorSources,
    TensorComparison,
    Uncompared,
    why_missing,
)
from quantscope.run.compare.scores import ScoreKeeper
from quantscope.run.compare.side_by_side import (
    MatchedTensors,
    SideBySide,
    VersionTensor,
    compare_with,
    find_originals,
)
from quantscope.run.compare.sources import (
    SEVERAL_SCALES,
    Leaf,
    NoSourcesError,
    Pieces,
    find_pieces,
    region_before,
)
from quantscope.run.compare.statistics import RunningSums
from quantscope.run.compare.sums import (
    CLIP_TOLERANCE,
    CLIPPED,
    COUNTS,
    ENERGIES,
    FLOAT_ENDS,
    Layout,
    clipped_sums,
    ends_of,
    energy_sums,
    layout_of,
    nothing_is_below,
    source_names,
    source_sums,
    value_sums,
)
from quantscope.run.compare.weights import compare_arrays, compare_constants

__all__ = [
    "CLIPPED",
    "CLIP_TOLERANCE",
    "COUNTS",
    "ENERGIES",
    "FLOAT_ENDS",
    "ONLY_SQNR",
    "RESCALED",
    "SEVERAL_SCALES",
    "BlockErrors",
    "ChannelComparison",
    "Comparison",
    "Constants",
    "Detail",
    "ErrorSources",
    "JointBatch",
    "JointRun",
    "Layout",
    "Leaf",
    "MatchedTensors",
    "NoSourcesError",
    "Observer",
    "Pieces",
    "Probe",
    "ProbeSums",
    "RunningSums",
    "ScoreKeeper",
    "SideBySide",
    "TensorComparison",
    "Uncompared",
    "VersionTensor",
    "clipped_sums",
    "compare",
    "compare_arrays",
    "compare_constants",
    "compare_run",
    "compare_with",
    "ends_of",
    "energy_sums",
    "find_originals",
    "find_pieces",
    "flag_tensors",
    "from_another",
    "layout_of",
    "moved_to_zero",
    "nothing_is_below",
    "pair_comparable",
    "reading",
    "region_before",
    "small_batch",
    "source_names",
    "source_sums",
    "usual",
    "value_sums",
    "why_missing",
]
