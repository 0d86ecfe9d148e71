"""A loss that sits in one class."""

from collections.abc import Iterator
from math import sqrt

import numpy as np

from quantscope.diagnose.bench import Bench
from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.findings.missing_class import class_name
from quantscope.diagnose.results import Finding, Place, Remedy

KIND = "one-class"
WHY = (
    "A mean over all classes hides that one of them is hardly told from others any more; for that "
    "class the model is worse than its score says."
)
_SHARE_OF_LOSS = 0.5
_TIMES_ITS_SHARE = 3.0
# Of ten or a hundred classes, one is three deviations off by chance now and then; four is rare.
_DEVIATIONS = 4.0


def find(evidence: Evidence, bench: Bench) -> Iterator[Finding]:
    """Add up what each class loses, and hold the largest loss against chance."""
    labels = evidence.samples.targets
    loss = bench.gain(bench.floats)
    if labels is None or not loss.helps or loss.delta.first.unit != "share":
        return
    by_sample = np.nan_to_num(np.asarray(loss.delta.by_sample, np.float64))
    total = float(by_sample.sum())
    classes = np.unique(labels)
    lost = {int(label): float(by_sample[labels == label].sum()) for label in classes}
    worst = max(lost, key=lambda label: lost[label])
    own = by_sample[labels == worst]
    share, deviation = len(own) / len(labels), sqrt(float((own * own).sum()))
    if len(classes) < 2 or not deviation:
        return
    if lost[worst] < max(_SHARE_OF_LOSS, min(_TIMES_ITS_SHARE * share, 0.9)) * total:
        return
    if lost[worst] - share * total < _DEVIATIONS * deviation:
        return
    name = class_name(evidence, worst)
    numbers = {"label": worst, "samples": len(own), "lost": lost[worst], "lost_in_all": total}
    seen = (
        f"it loses {lost[worst]:.0f} of its {len(own):,} samples, of {total:.0f} that are lost in "
        f"all {len(classes)} classes"
    )
    yield Finding(
        KIND,
        f"The loss sits in one class: {name}",
        WHY,
        (Place(name, seen, numbers),),
        (Remedy(f"calibrate with more samples of {name}, and look at which classes it became"),),
        cost_of="class",
        labels=(worst,),
    )
