"""Show a comparison of a quantized network with its float one, as text and as a page.

How it is put together
- `text.py` is one comparison as lines and tables, `side_by_side_text.py` two versions; a width in,
  lines out.
- `page.py` makes the page from a `ComparisonDetails`, which `run/comparison_details.py` gathers. It
  loads `html.py` only then, because figures are slow to load.
- `html.py` is the page in order: headline numbers, what stands out, figures, tables, provenance.
  `pictures.py` are its figures, `tables.py` its tables.

How a part is added to the page
1. What it shows must be in the comparison or its details; nothing here runs a network.
2. A figure: a `Picture` in `pictures.py`, which says in words what it shows. A table: a `Table`
   in `tables.py`, whose cells are a `Number` where the column sorts by it.
3. Its place in the list of `comparison_html`; an `<h2>` in it appears among the contents.
"""

from quantscope.report.compare.page import comparison_page
from quantscope.report.compare.side_by_side_text import side_by_side_lines
from quantscope.report.compare.text import channel_lines, comparison_lines

__all__ = ["channel_lines", "comparison_lines", "comparison_page", "side_by_side_lines"]
