"""Measure one cell of a map of bits, in whatever process."""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from quantscope.data import Samples
from quantscope.edit import Editor
from quantscope.model import Execution
from quantscope.run import Evaluation, EvaluationDelta, MeasureSource
from quantscope.run.whatif import WhatIf
from quantscope.study.bits.ranges import ChosenRanges
from quantscope.study.bits.results import Width

_FLOAT_BITS = 32


@dataclass(frozen=True, eq=False)
class CellSetting:
    """The things that all cells of a map share; sent along with each to wherever it runs.

    `key` is the same for the same models, samples, measure and execution. `base` and `floats` are
    the content of the two files.
    """

    key: str
    base: bytes = field(repr=False)
    floats: bytes = field(repr=False)
    float_name: str
    name: str
    samples: Samples = field(repr=False)
    ranges: ChosenRanges
    measure: MeasureSource | None
    execution: Execution
    threads: int


def cell_row(setting: CellSetting, config: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the network with the config's bits, against the float one on the same samples."""
    what_if = _opened(setting)
    edits = setting.ranges.edits_for(config["weights"], config["activations"])
    applied = what_if.editor.apply(edits)
    effect = what_if.effect_of(applied, full=True, kernels=False)
    return {
        "score": effect.evaluation.score.to_dict(),
        "against_float": _delta(effect.against_float),
        "weight_bytes": count_weight_bytes(what_if.editor, config["weights"]),
        "facts": _facts(effect.evaluation, what_if),
    }


def _facts(evaluation: Evaluation, what_if: WhatIf) -> dict[str, Any]:
    return {
        "execution": evaluation.execution,
        "data": evaluation.data,
        "data_digest": evaluation.data_digest,
        "samples": evaluation.images,
        "sample_word": evaluation.sample_word,
        "base_digest": what_if.editor.model.digest,
        "provenance": dict(evaluation.provenance),
    }


def _delta(found: EvaluationDelta | None) -> dict[str, Any] | None:
    if found is None or math.isnan(found.delta):
        return None
    interval = found.scores.interval_95
    return {"delta": found.delta, "interval_95": None if interval is None else list(interval)}


def count_weight_bytes(editor: Editor, bits: Width) -> int:
    """Count the bytes of all quantized weights with so many bits each, packed without gaps."""
    count = sum(
        math.prod(dim for dim in tensor.shape or () if isinstance(dim, int))
        for tensor in editor.network.tensors
        if tensor.role == "weight"
    )
    return -(-count * (_FLOAT_BITS if bits is None else bits) // 8)


_DESKS: dict[str, WhatIf] = {}
"""The opened network of the setting that this process worked on last."""


def _opened(setting: CellSetting) -> WhatIf:
    if setting.key not in _DESKS:
        _DESKS.clear()
        folder = Path(_folder().name) / setting.key
        folder.mkdir(exist_ok=True)
        base, floats = folder / setting.name, folder / setting.float_name
        base.write_bytes(setting.base)
        floats.write_bytes(setting.floats)
        _DESKS[setting.key] = WhatIf(
            base,
            setting.samples,
            float_model=floats,
            measure=setting.measure,
            execution=setting.execution,
            threads=setting.threads,
            quick=len(setting.samples),
            # Nothing two cells have in common is worth to be kept: all of it is requantized.
            kept_bytes_limit=0,
        )
    return _DESKS[setting.key]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="quantscope-bits-")
