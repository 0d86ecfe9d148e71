"""The ranges that go with the widths of a study, chosen once for all of its networks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quantscope.data import SamplesSource, samples_for
from quantscope.edit import Edit, EditedRole, Editor, OffRole, RangeRule, SetBits
from quantscope.errors import BadConfigError
from quantscope.progress import Progress, silent
from quantscope.quantize import PtqConfig, choose_images
from quantscope.run import best_ranges, choose_ends
from quantscope.study.bits.results import Width

_SEEN_WITH = 256


@dataclass(frozen=True)
class ChosenRanges:
    """How tensors get their ranges with other bits.

    `ends` has those of each activation at each width, where `rule` asks for the values that it has
    on the samples called `data`.
    """

    rule: RangeRule = "keep"
    ends: Mapping[tuple[str, int], tuple[float, float]] = field(default_factory=dict, repr=False)
    data: str | None = None
    data_digest: str | None = None

    def edit(self, tensor: str, bits: int, *, stored: bool) -> SetBits:
        """Give the edit for one tensor; without a float counterpart it keeps its range."""
        return SetBits(tensor, bits, self.rule if stored else self.ends.get((tensor, bits), "keep"))

    def edits_for(self, weights: Width, activations: Width) -> list[Edit]:
        """Give the edits that make a pair of widths of a network of 8 bits."""
        made = [_role("weights", weights, self.rule), _role("activations", activations)]
        if activations is not None:
            made += [
                SetBits(tensor, bits, ends)
                for (tensor, bits), ends in self.ends.items()
                if bits == activations
            ]
        return made


KEPT = ChosenRanges()


def edits_for(weights: Width, activations: Width) -> list[Edit]:
    """Give the edits that make a pair of widths of a network of 8 bits, whose ranges stay."""
    return KEPT.edits_for(weights, activations)


def _role(role: EditedRole, bits: Width, rule: RangeRule = "keep") -> Edit:
    return OffRole(role) if bits is None else SetBits(role, bits, rule)


def choose_ranges(
    editor: Editor,
    rule: RangeRule,
    widths: Sequence[Width],
    samples: SamplesSource | None = None,
    *,
    threads: int = 0,
    progress: Progress = silent,
) -> ChosenRanges:
    """Choose the ranges of all activations at these widths.

    Their values are seen on `samples`, without any on CIFAR-10's training images. Activations that
    share a scale have one range, known by the first of them.
    """
    if rule == "keep":
        if samples is not None:
            raise BadConfigError("Ranges that stay need no samples; choose minmax or best as well")
        return KEPT
    given = None if samples is None else samples_for(editor.model, samples)
    config = PtqConfig(calibration_images=_SEEN_WITH if given is None else len(given))
    chosen = choose_images(config, given, model=editor.model.name, ports=editor.model.inputs)
    found = best_ranges(
        editor.model, chosen, float_model=editor.against[0], threads=threads, progress=progress
    )
    known = {each.tensor for each in found.ranges}
    ends: dict[tuple[str, int], tuple[float, float]] = {}
    for tensor, mates in editor.bit_groups("activations"):
        group = (tensor.name, *mates)
        if known.isdisjoint(group):
            continue
        for bits in sorted({bits for bits in widths if bits is not None}):
            pair = choose_ends(found, group, bits, rule)
            if isinstance(pair, tuple):
                ends[tensor.name, bits] = pair
    return ChosenRanges(rule, ends, found.data, found.data_digest)
