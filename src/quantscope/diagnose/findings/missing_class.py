"""A class that no calibration sample is of."""

from collections.abc import Iterator

import numpy as np

from quantscope.data import calibration_set
from quantscope.diagnose.evidence import Evidence
from quantscope.diagnose.results import Finding, Place, Remedy

KIND = "missing-class"
WHY = (
    "Values that only this class has were never seen when the ranges were found, so they may lie "
    "beyond them."
)
# So many of a class would be in a calibration set that is drawn like the data; none is no chance.
_EXPECTED = 5


def find(evidence: Evidence) -> Iterator[Finding]:
    """Count the classes of both sets."""
    calibration, labels = evidence.calibration, evidence.samples.targets
    if calibration is None or calibration.targets is None or labels is None:
        return
    present = np.unique(calibration.targets)
    classes, counts = np.unique(labels, return_counts=True)
    expected = counts / len(labels) * len(calibration)
    missing = classes[~np.isin(classes, present) & (expected >= _EXPECTED)]
    if not missing.size:
        return
    names = [class_name(evidence, int(label)) for label in missing]
    places = tuple(
        Place(
            name,
            f"none of the {len(calibration):,} calibration samples is of this class; "
            f"{int(counts[classes == label][0]):,} of these are",
            {"label": int(label), "samples": int(counts[classes == label][0])},
        )
        for name, label in zip(names, missing, strict=True)
    )
    made = evidence.samples.layout == "nchw-pixels" and len(calibration) <= 1000
    balanced = calibration_set(len(calibration)) if made else None
    source = "" if balanced is None else f" ({balanced.name})"
    yield Finding(
        KIND,
        f"{'A class' if len(places) == 1 else f'{len(places)} classes'} of the data "
        f"{'is' if len(places) == 1 else 'are'} missing from calibration",
        WHY,
        places,
        (Remedy(f"calibrate with all classes{source}", calibration=balanced),),
        cost_of="class",
        labels=tuple(int(label) for label in missing),
    )


def class_name(evidence: Evidence, label: int) -> str:
    """Name a class as people know it."""
    names = evidence.samples.class_names
    return names[label] if 0 <= label < len(names) else f"class {label}"
