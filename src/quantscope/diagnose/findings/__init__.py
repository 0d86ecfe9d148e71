"""The kinds of findings, one module each.

A module has `KIND`, which is also the anchor in docs/findings.md, and `find`, which looks at the
evidence and gives a finding or none: one for all places where it was seen. Nothing here runs a
model: costs are measured afterwards, by what a finding says it is about.

A new kind is a module, its line in `FINDERS`, its section in docs/findings.md, and a small network
in the tests that has exactly this defect.
"""

from collections.abc import Callable, Iterator

from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings import (
    bias_end,
    bias_error,
    bias_scale,
    branches,
    channel_spread,
    clipping,
    lost_clip,
    outliers,
    wide_range,
)
from quantscope.diagnose.results import Finding

__all__ = ["FINDERS", "KINDS", "find_all"]

_MODULES = (
    outliers,
    wide_range,
    clipping,
    channel_spread,
    branches,
    lost_clip,
    bias_scale,
    bias_end,
    bias_error,
)

FINDERS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = tuple(m.find for m in _MODULES)
KINDS: tuple[str, ...] = tuple(m.KIND for m in _MODULES)


def find_all(evidence: Evidence) -> tuple[Finding, ...]:
    """Look for every kind; the findings are not ranked yet."""
    return tuple(finding for find in FINDERS for finding in find(evidence))
