"""The kinds of findings, one module each.

A module has `KIND`, which is also the anchor in docs/findings.md, and `find`, which looks at the
evidence and gives a finding or none: one for all places where it was seen. Nothing here runs a
model: costs are measured afterwards, by what a finding says it is about.

A new kind is a module, its line in `FINDERS`, its section in docs/findings.md, and a small network
in the tests that has exactly this defect.
"""

from collections.abc import Callable, Iterator, Sequence

from quantscope.diagnose.bench import Bench
from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings import (
    bias_end,
    bias_error,
    bias_scale,
    branches,
    channel_spread,
    clipping,
    constant_channel,
    float_layer,
    long_tail,
    lost_channels,
    lost_clip,
    mean_shift,
    missing_class,
    needs_bits,
    one_class,
    outlier_channels,
    outliers,
    preprocessing,
    saturating,
    uncovered,
    wide_range,
)
from quantscope.diagnose.results import Finding
from quantscope.plain_text import many

__all__ = [
    "FINDERS",
    "KINDS",
    "dead_notes",
    "find_all",
    "find_in_answers",
    "find_suspects",
    "matters",
]

_MODULES = (
    outliers,
    wide_range,
    clipping,
    long_tail,
    channel_spread,
    branches,
    lost_clip,
    bias_scale,
    bias_end,
    bias_error,
    saturating,
    float_layer,
    preprocessing,
    uncovered,
    missing_class,
    lost_channels,
    constant_channel,
    outlier_channels,
    needs_bits,
    mean_shift,
)

FINDERS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = tuple(m.find for m in _MODULES)
KINDS: tuple[str, ...] = (*(m.KIND for m in _MODULES), one_class.KIND)

_KERNELS_DB = 1.0
"""Kernels that keep the SQNR of the outputs within that are as good as the arithmetic stated."""


def find_all(evidence: Evidence) -> tuple[Finding, ...]:
    """Look for every kind; the findings are not ranked yet."""
    return tuple(finding for find in FINDERS for finding in find(evidence))


def find_suspects(evidence: Evidence) -> tuple[str, ...]:
    """Give the tensors of which a finding wants to know what other ranges would cost."""
    return long_tail.suspects(evidence)


def find_in_answers(
    evidence: Evidence, bench: Bench, found: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Look for what only the answers show; a class that a finding is about needs no second one."""
    known = {label for finding in found for label in finding.labels}
    return tuple(f for f in one_class.find(evidence, bench) if not known & set(f.labels))


def matters(finding: Finding) -> bool:
    """Drop kernels that change nothing: what they could do, they do not do to this model."""
    cost = finding.cost
    if finding.kind != saturating.KIND or cost is None:
        return True
    return cost.helps or (cost.sqnr_change_db or 0.0) > _KERNELS_DB


def dead_notes(evidence: Evidence) -> tuple[str, ...]:
    """Say which channels are constant in the float model already: no fault of quantization."""
    dead = lost_channels.dead_channels(evidence)
    if not dead:
        return ()
    shown = ", ".join(f"{count} of {name}" for name, count in list(dead.items())[:3])
    more = f" and of {len(dead) - 3} more tensors" if len(dead) > 3 else ""
    return (
        f"{many(sum(dead.values()), 'channel')} of the float model, constant for all these samples "
        f"({shown}{more}), could be taken out: that would save time, not accuracy.",
    )
