"""The samples that are harmed, as values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quantscope.model import Execution


@dataclass(frozen=True)
class HarmedSample:
    """A sample by its index in the full set, and what the variants do to it.

    `changed` counts the variants that put it into another class than the float model, `lost` those
    that are wrong where that is right, `gained` the other way; `classes` are where they put it,
    most often first. `margin` is how far the float model's largest score lies above the next.
    `mean_loss` and `worst_loss` are what its score loses, most of it by `worst_variant`; None where
    classes are what is counted.
    """

    index: int
    label: str | None
    float_class: str | None
    margin: float | None
    changed: int
    lost: int
    gained: int
    classes: tuple[tuple[str, int], ...]
    mean_loss: float | None
    worst_loss: float | None
    worst_variant: str | None


@dataclass(frozen=True)
class HarmedClass:
    """The samples of a class: by their labels, or without those by the float model.

    `ever` counts the samples that any variant changes, `changed`, `lost` and `gained` pairs of a
    sample and a variant.
    """

    name: str
    samples: int
    ever: int
    changed: int
    lost: int
    gained: int


@dataclass(frozen=True, eq=False)
class Harm:
    """The samples that `variants` change, those that most of them change first.

    `how_often[n]` counts the samples that n variants change. `safe_margin` is the largest margin of
    a sample that any variant changes: above it the float model's answer held in all of them. The
    medians are of the margins of samples that change in any variant, and in none. `moves` counts
    from which class to which, pairs of a sample and a variant. Without classes `worst` has those
    that lose most, and what is said of classes is empty.
    """

    model: str
    digest: str
    execution: Execution
    data: str
    data_digest: str
    samples: int
    sample_word: str
    measure: str
    unit: str
    higher_is_better: bool
    variants: tuple[str, ...]
    tells_classes: bool
    has_labels: bool
    has_float_score: bool
    how_often: tuple[int, ...]
    safe_margin: float | None
    median_margin_changed: float | None
    median_margin_kept: float | None
    classes: tuple[HarmedClass, ...]
    moves: tuple[tuple[str, str, int], ...]
    worst: tuple[HarmedSample, ...]
    provenance: Mapping[str, Any]

    @property
    def ever(self) -> int:
        """The samples that any variant changes."""
        return sum(self.how_often[1:])

    @property
    def always(self) -> int:
        """The samples that all variants change."""
        return self.how_often[-1] if len(self.how_often) > 1 else 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ever": self.ever, "always": self.always}
