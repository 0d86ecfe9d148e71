"""Write what a calibration set does to the ranges as one page that needs nothing else."""

import base64

from quantscope.report.calibration.text import ranges_table, summary_lines
from quantscope.report.html import facts_html, list_html, table_html, text_html
from quantscope.report.page import SORTING, STYLE, page
from quantscope.study.calibration import CalibrationInspection

_CAPTION = (
    "Left: each tensor's range as 100 %, what of it one sample alone takes, and where other "
    "samples go. Right: how the ranges grew with the number of samples, in their order."
)
_STYLE = """
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
figure { margin: 2rem 0; }
img { display: block; width: 100%; height: auto; background: #ffffff; padding: .75rem;
  border: 1px solid var(--line); border-radius: .5rem; }
figcaption { margin-top: .5rem; color: var(--faint); font-size: .875rem; }
"""


def calibration_page(result: CalibrationInspection, picture: bytes) -> str:
    """Write the page; `picture` is the figure as PNG."""
    title = f"Calibration of {result.model}"
    data = base64.b64encode(picture).decode()
    caption = text_html(_CAPTION)
    made_with = {
        "Model": f"{result.model}, sha256 {result.digest}",
        "Calibration": f"{result.calibration}, digest {result.calibration_digest}",
        **({"Data": f"{result.data}, digest {result.data_digest}"} if result.data else {}),
        **result.provenance,
    }
    body = [
        "<main>",
        f"<h1>{text_html(title)}</h1>",
        list_html(summary_lines(result)),
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>",
        "<h2>Ranges</h2>",
        table_html(ranges_table(result), sorts=True),
    ]
    left_out = [f"{name}: {why}" for name, why in result.left_out.items()]
    if left_out:
        body += ["<h2>Not listed</h2>", list_html(left_out)]
    body += [
        "<h2>Made with</h2>",
        f'<dl class="facts">{facts_html(made_with.items())}</dl>',
        "</main>",
    ]
    return page(title, "\n".join(body), style=STYLE + _STYLE, script=SORTING)
