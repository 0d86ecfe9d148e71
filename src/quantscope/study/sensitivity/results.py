"""The results of a sensitivity sweep: what each layer's quantization costs, as values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from quantscope.run import Origin

SCHEMA_VERSION = 1

RowMode = Literal["disable", "enable"]
Mode = Literal["disable", "enable", "both"]
INPUT_TYPE = "Input"


@dataclass(frozen=True)
class SensitivityRow:
    """One layer, or model input (`op_type` "Input"), with its quantization switched.

    "disable": off, in the quantized network; "enable": on alone, all else off. `tensors` are those
    that were switched: the layer's weight, bias and output, and what cannot be switched without
    them. `score` is what the measure counts, and `accuracy` the same where that is top-1. `delta`
    is the score so minus the score before, with its paired interval; None where no sample has a
    number in both. `gained` and `lost` count the images that only now, and only before, are put
    into the right class (by another measure the samples that are better now, or worse), and
    `changed` those put into any other. Indices are those in the full set.

    `logit_sqnr_db` is 20 log10(|f| / |f - q|) over all scores of all images, f the float model's;
    None where `exact` (the scores are the float model's) and where q is not finite. Images for
    which f is not finite are left out, and a note says so.
    `sqnr_change_db` is how much of it the switch changed; None where either end has no number, as
    in "enable", where nothing was quantized before. `unchanged`: every score is as before.

    `rank` 1 is the layer whose quantization matters most, by SQNR of the logits, because a handful
    of changed images ranks layers by chance: in "disable" the highest SQNR (switching it off wins
    most), in "enable" the lowest (it does most harm alone). Equal SQNRs go by accuracy, then by the
    order of the layers; scores that are not finite come last. A measure that was asked for, and one
    whose numbers are not right or wrong, ranks itself, and equal ones go by SQNR over all outputs.
    """

    layer: str
    op_type: str
    mode: RowMode
    tensors: tuple[str, ...]
    accuracy: float | None
    delta: float | None
    interval_95: tuple[float, float] | None
    p_value: float | None
    gained: int
    lost: int
    changed: int
    gained_images: tuple[int, ...]
    lost_images: tuple[int, ...]
    logit_sqnr_db: float | None
    sqnr_change_db: float | None
    exact: bool
    unchanged: bool
    rank: int
    score: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Base:
    """A network that rows are compared with; all as in a row."""

    accuracy: float | None
    logit_sqnr_db: float | None
    exact: bool
    score: float | None = None


@dataclass(frozen=True)
class NotSwitched:
    """A layer that has no row, and why."""

    layer: str
    reason: str


@dataclass(frozen=True, eq=False)
class Sensitivity(Origin):
    """All layers' rows along the network, "disable" before "enable"; see `ranked`.

    `quantized` is the network as `execution` runs it, `all_off` the one with all of `rows` switched
    off; None where the mode does not need it. `scores` says whether the model gives logits or,
    ending in a softmax, probabilities, or any other outputs: SQNRs are of what it gives.
    `float_score` is None where the measure compares with the float model; `by_score` says that
    the score ranks.
    """

    mode: Mode
    images: int
    scores: Literal["logits", "probabilities", "outputs"]
    float_accuracy: float | None
    quantized: Base | None
    all_off: Base | None
    rows: tuple[SensitivityRow, ...]
    not_switched: tuple[NotSwitched, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]
    measure: str = "top-1 accuracy"
    unit: str = "share"
    higher_is_better: bool = True
    float_score: float | None = None
    by_score: bool = False
    sample_word: str = "image"

    @property
    def modes(self) -> tuple[RowMode, ...]:
        return ("disable", "enable") if self.mode == "both" else (self.mode,)

    def ranked(self, mode: RowMode) -> tuple[SensitivityRow, ...]:
        """List the rows of a mode, what matters most first."""
        return tuple(sorted((r for r in self.rows if r.mode == mode), key=lambda row: row.rank))

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "digest": self.digest,
            "float_model": self.float_model,
            "float_digest": self.float_digest,
            "mode": self.mode,
            "execution": self.execution,
            "data": self.data,
            "data_digest": self.data_digest,
            "images": self.images,
            "scores": self.scores,
            "measure": self.measure,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "ranked_by": self.measure if self.by_score else f"SQNR of the {self.scores}",
            "float_accuracy": self.float_accuracy,
            "float_score": self.float_score,
            "quantized": asdict(self.quantized) if self.quantized else None,
            "all_off": asdict(self.all_off) if self.all_off else None,
            "rows": [row.to_dict() for row in self.rows],
            "not_switched": [asdict(each) for each in self.not_switched],
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }
