"""Turn results and networks into text, tables, figures, drawings and pages.

Nothing here runs a network. A result comes in, and what is shown of it goes out: facts, lines and
tables as values, which the command line prints and a page or a notebook shows.

How it is put together
- `table.py` has the values: `Table`, `Fact`, `Line`. A table becomes text there, fitted to a
  terminal, and HTML in `html.py`. `wording.py` has numbers, shapes and names as a person reads
  them; `page.py` is the frame of every page that is written, with its content policy;
  `row_pictures.py` draws rows of samples.
- One text module a result: `evaluate_text.py`, `sensitivity_text.py`, `interactions_text.py`,
  `whatif_text.py`, `trace_text.py`, `capture_text.py`, `accumulators_text.py`,
  `quantize_text.py`, `data_text.py`; of networks `inspect_text.py` with `network_text.py`,
  `layer_text.py`, `provenance_text.py` and `raw_nodes.py`, and as JSON `inspect_json.py`.
- Families have folders with doors of their own: `graph/` (drawings), `compare/`, `calibration/` and
  `study/` (each text and a page), `figures/` (matplotlib). The last two load matplotlib, which is
  slow, so they are not re-exported here and are imported where they are needed.

How the text of a result is added
1. `NAME_text.py` with a function from the result to an iterator: `NAME_view` gives lines, facts and
   tables, `NAME_lines` prose and tables already fitted to a width. It computes nothing and prints
   nothing, and names go through `printable`.
2. Its name here; the command does `show(NAME_view(result))`.
3. A test of the values. What is in a cell is tested there, how cells are laid out in
   `tests/report/test_table.py`.
"""

from quantscope.report.accumulators_text import accumulators_view, saturation_view
from quantscope.report.bits_text import bits_view, curves_view, frontier_view
from quantscope.report.capture_text import capture_lines
from quantscope.report.cure_text import course_view, cure_view
from quantscope.report.data_text import calibration_lines, data_table
from quantscope.report.diagnosis_html import diagnosis_html
from quantscope.report.diagnosis_text import (
    account_table,
    attempt_text,
    cost_text,
    diagnosis_view,
    findings_title,
    gain_text,
)
from quantscope.report.evaluate_text import evaluation_view
from quantscope.report.graph import (
    Branch,
    Drawing,
    Overlay,
    draw_network,
    draw_nodes,
    make_overlay,
    module_tree,
    read_overlay,
    render,
)
from quantscope.report.inspect_json import inspection, layer_inspection, node_inspection
from quantscope.report.inspect_text import Part, layer_view, network_view
from quantscope.report.interactions_text import (
    interactions_lines,
    pair_sentences,
    shapley_lines,
)
from quantscope.report.layer_text import channel_table, layer_facts, layer_tensors, tensor_facts
from quantscope.report.network_text import (
    FORMATS,
    activation_table,
    batch_of,
    constant_table,
    flow_text,
    layer_table,
    network_facts,
    quantized_text,
    range_text,
    residual_table,
    spread_text,
)
from quantscope.report.quantize_text import quantization_view
from quantscope.report.raw_nodes import RawGraph, raw_lines, read_raw_nodes
from quantscope.report.row_pictures import draw_row
from quantscope.report.sensitivity_text import sensitivity_lines
from quantscope.report.table import Fact, Line, Strong, Table, fact_lines, wrap
from quantscope.report.trace_text import computation, trace_text
from quantscope.report.whatif_text import Skipped, effect_lines
from quantscope.report.wording import (
    amount,
    attributes_text,
    format_signed,
    number,
    shape_text,
    type_text,
)

__all__ = [
    "FORMATS",
    "Branch",
    "Drawing",
    "Fact",
    "Line",
    "Overlay",
    "Part",
    "RawGraph",
    "Skipped",
    "Strong",
    "Table",
    "account_table",
    "accumulators_view",
    "activation_table",
    "amount",
    "attempt_text",
    "attributes_text",
    "batch_of",
    "bits_view",
    "calibration_lines",
    "capture_lines",
    "channel_table",
    "computation",
    "constant_table",
    "cost_text",
    "course_view",
    "cure_view",
    "curves_view",
    "data_table",
    "diagnosis_html",
    "diagnosis_view",
    "draw_network",
    "draw_nodes",
    "draw_row",
    "effect_lines",
    "evaluation_view",
    "fact_lines",
    "findings_title",
    "flow_text",
    "format_signed",
    "frontier_view",
    "gain_text",
    "inspection",
    "interactions_lines",
    "layer_facts",
    "layer_inspection",
    "layer_table",
    "layer_tensors",
    "layer_view",
    "make_overlay",
    "module_tree",
    "network_facts",
    "network_view",
    "node_inspection",
    "number",
    "pair_sentences",
    "quantization_view",
    "quantized_text",
    "range_text",
    "raw_lines",
    "read_overlay",
    "read_raw_nodes",
    "render",
    "residual_table",
    "saturation_view",
    "sensitivity_lines",
    "shape_text",
    "shapley_lines",
    "spread_text",
    "tensor_facts",
    "trace_text",
    "type_text",
    "wrap",
]
