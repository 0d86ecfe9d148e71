"""Show a study as text, as figures and as a report in its folder.

How it is put together
- `text.py` is what the command prints when a study ends.
- `report.py` writes the report, as HTML that needs nothing else and as Markdown, from the same
  sentences, the same table and the same figures.
- `harm.py` says who is harmed, with pictures where the samples are any.
- `figures.py` draws them, each from all the rows; None where there is nothing to compare.

This door loads matplotlib, so `quantscope.report` does not lead here.

How a figure is added: a function of `figures.py` from a `StudyResult` to a figure or None, its name
in `study_figures`, and its caption in `CAPTIONS` of `report.py`.
"""

from quantscope.report.study.figures import accuracy_figure, calibration_curves, calibration_figure
from quantscope.report.study.report import write_report
from quantscope.report.study.text import study_view

__all__ = [
    "accuracy_figure",
    "calibration_curves",
    "calibration_figure",
    "study_view",
    "write_report",
]
