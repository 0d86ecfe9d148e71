"""The frame of every page that a command writes: one file that needs nothing else.

A page gives its body, its style and at most one script. The frame gives the content policy, which
holds even if a name in a model got past the escaping: nothing is loaded from anywhere, and no
script runs but the page's own.
"""

import hashlib
import re
from base64 import b64encode

from quantscope.report.html import text_html


def page(
    title: str,
    body: str,
    *,
    style: str,
    script: str = "",
    has_pictures: bool = True,
    is_themed_by_system: bool = True,
) -> str:
    """Put `body`, which is HTML, under `title`, which is text.

    `has_pictures` lets it show those that are inside of it. A page that is not themed by the
    reader's system has a way of its own to be light or dark.
    """
    policy = ["default-src 'none'"]
    if has_pictures:
        policy.append("img-src data:")
    policy.append("style-src 'unsafe-inline'")
    if script:
        # The hash admits this script alone; 'unsafe-inline' would run any that got in with a name.
        policy.append(f"script-src 'sha256-{_digest(script)}'")
    parts = {
        "SCHEME": _SCHEME if is_themed_by_system else "",
        "POLICY": "; ".join(policy),
        "TITLE": text_html(title),
        "STYLE": style,
        "BODY": body,
        "SCRIPT": f"<script>{script}</script>\n" if script else "",
    }
    # One pass: what stands in a name must not be taken for a place of the page.
    return re.sub(f"@({'|'.join(parts)})@", lambda place: parts[place[1]], _PAGE)


def _digest(script: str) -> str:
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
@SCHEME@<meta http-equiv="Content-Security-Policy"
 content="@POLICY@">
<title>@TITLE@</title>
<style>@STYLE@</style>
</head>
<body>
@BODY@
@SCRIPT@</body>
</html>
"""

_SCHEME = '<meta name="color-scheme" content="light dark">\n'

# What pages of text share; each adds its own.
STYLE = """
:root { --ink: #1b1f24; --faint: #5b6470; --page: #ffffff; --line: #dfe3e8; --panel: #f6f7f9;
  --mark: #d55e00; --link: #0067a3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --faint: #9aa3ad; --page: #15181c; --line: #30363d; --panel: #1b1f24;
    --mark: #f0813a; --link: #6bb8ea; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
ul { padding-left: 1.2rem; }
li { margin: .3rem 0; overflow-wrap: anywhere; }
.faint { color: var(--faint); font-size: .875rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .8125rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .65rem; text-align: right; white-space: nowrap; }
th { color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--line);
  vertical-align: bottom; }
th small { display: block; font-weight: 400; font-size: .75rem; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; }
th button:hover { color: var(--ink); text-decoration: underline; }
th button::after { content: "\\2195"; margin-left: .2rem; opacity: .35; }
th[aria-sort=ascending] button::after { content: "\\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\\2193"; opacity: 1; }
th[aria-sort=ascending], th[aria-sort=descending] { color: var(--ink); }
th.text, td.text { text-align: left; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; margin: 0; }
dl.facts dt { color: var(--faint); font-size: .875rem; }
dl.facts dd { margin: 0; font-size: .875rem; overflow-wrap: anywhere; }
"""

# Each click on a heading gives the next order: the worst first, the other way, as it was.
SORTING = """
for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0], original = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    if ('v' in cell.dataset) return cell.dataset.v === '' ? null : Number(cell.dataset.v);
    return cell.textContent;
  };
  heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
    const first = head.dataset.first, second = first === 'ascending' ? 'descending' : 'ascending';
    const now = head.getAttribute('aria-sort');
    const next = now === first ? second : now === second ? 'none' : first;
    for (const other of heads) other.setAttribute('aria-sort', other === head ? next : 'none');
    const sign = next === 'descending' ? -1 : 1;
    const rows = next === 'none' ? original : [...original].sort((a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (typeof x === 'number' ? x - y : x.localeCompare(y, 'en', { numeric: true }));
    });
    body.append(...rows);
  }));
}
"""
