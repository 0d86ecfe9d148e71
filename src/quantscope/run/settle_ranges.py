"""Put numbers in the place of rules for ranges that only a run of the network can tell."""

from collections.abc import Collection, Sequence

from quantscope.arithmetic import (
    QuantParams,
    Spread,
    is_symmetric,
    params_from_range,
    range_errors,
    with_bits,
)
from quantscope.data import SamplesSource
from quantscope.edit import MANY, Edit, Editor, RangeRule, SetBits
from quantscope.errors import BadConfigError
from quantscope.progress import Progress, silent
from quantscope.run.best_ranges import BestRanges, best_ranges


def needs_samples(editor: Editor, edits: Sequence[Edit]) -> bool:
    """Say whether an edit chooses the range of an activation by its values."""
    return any(
        not tensor.has_data
        for edit in edits
        if isinstance(edit, SetBits) and edit.range in ("minmax", "best")
        for tensor, _ in editor.bit_groups(edit.target)
    )


def settle_ranges(
    editor: Editor,
    edits: Sequence[Edit],
    samples: SamplesSource | BestRanges,
    *,
    threads: int = 0,
    progress: Progress = silent,
) -> tuple[Edit, ...]:
    """Give the same edits with two numbers for each range of an activation that has a rule.

    The rule is asked about the float network's values on `samples`, or about what `best_ranges` has
    counted of them. A target of several tensors becomes one edit for each activation; of a role's,
    those that have no counterpart in the float network, or whose channels are rescaled, keep
    their ranges. Give samples that the result is not measured with.
    """
    if not needs_samples(editor, edits):
        return tuple(edits)
    found = (
        samples
        if isinstance(samples, BestRanges)
        else best_ranges(
            editor.model,
            samples,
            float_model=editor.original,
            threads=threads,
            progress=progress,
        )
    )
    settled: list[Edit] = []
    for place, edit in enumerate(edits):
        if isinstance(edit, SetBits) and edit.range in ("minmax", "best"):
            rescaled = {t for p, _ in editor.rescaled_by(edits[:place]) for t in p.between}
            settled += _settled(editor, edit, found, rescaled)
        else:
            settled.append(edit)
    return tuple(settled)


def _settled(
    editor: Editor, edit: SetBits, found: BestRanges, rescaled: Collection[str]
) -> list[Edit]:
    rule = edit.range
    assert not isinstance(rule, tuple)
    groups = editor.bit_groups(edit.target)
    made: list[Edit] = [SetBits(t.name, edit.bits, rule) for t, _ in groups if t.has_data]
    if edit.target in MANY:
        # What cannot be edited is noted by this one; what has no counterpart keeps its range.
        made = [SetBits(edit.target, edit.bits)]
        if edit.target != "activations":
            made.append(SetBits("weights", edit.bits, rule))
    known = {each.tensor for each in found.ranges}
    for tensor, mates in groups:
        group = (tensor.name, *mates)
        if tensor.has_data or (edit.target in MANY and known.isdisjoint(group)):
            continue
        if not set(group).isdisjoint(rescaled):
            if edit.target in MANY:
                continue
            raise BadConfigError(
                f"The channels of {tensor.name} are rescaled, so its {edit.range} range is not "
                f"that of the float network's values; keep its range, or give two ends"
            )
        ends = choose_ends(found, group, edit.bits, rule)
        made.append(SetBits(tensor.name, edit.bits, ends))
    return made


def choose_ends(
    found: BestRanges, group: Sequence[str], bits: int, rule: RangeRule
) -> tuple[float, float] | RangeRule:
    """Choose the low and the high end of activations that share a scale, by all their values.

    Where nothing but zeros was seen the range stays.
    """
    known = [each for each in found.ranges if each.tensor in group]
    if not known:
        found[group[0]]  # raises, and says why there is none
    if rule == "keep":
        return rule
    spread = Spread.joined([each.spread for each in known])
    lead = next((each for each in known if each.tensor == group[0]), known[0])
    symmetric = is_symmetric(lead.params)
    params = with_bits(lead.params, bits)
    if spread.lowest == spread.highest == 0:
        return "keep"
    if rule == "best":
        chosen = range_errors(spread, params, symmetric=symmetric).best.params
    else:
        chosen = params_from_range(
            spread.lowest, spread.highest, params.dtype, symmetric=symmetric, ends=params.ends
        )
    return _ends_of(chosen)


def _ends_of(params: QuantParams) -> tuple[float, float]:
    low, high = params.representable_range
    return float(low), float(high)
