"""A calibration set's effect on a network's ranges, as text and as a page.

`text.py` has the sentences and the table, `page.py` one HTML file with them and the figure, which
`figures/calibration.py` draws.
"""

from quantscope.report.calibration.page import calibration_page
from quantscope.report.calibration.text import calibration_view, ranges_table, summary_lines

__all__ = ["calibration_page", "calibration_view", "ranges_table", "summary_lines"]
