"""The page around a comparison: its looks in light and dark, and tables that sort."""

import hashlib
import re
from base64 import b64encode


def page(title: str, body: str) -> str:
    """`title` and `body` are HTML. Nothing is fetched, and no script but this one's runs."""
    parts = {
        "HASH": b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode(),
        "TITLE": title,
        "STYLE": _STYLE,
        "BODY": body,
        "SCRIPT": _SCRIPT,
    }
    # One pass: what stands in a name must not be taken for a place of the page.
    return re.sub("@(HASH|TITLE|STYLE|BODY|SCRIPT)@", lambda place: parts[place[1]], _PAGE)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'; script-src 'sha256-@HASH@'">
<title>@TITLE@</title>
<style>@STYLE@</style>
</head>
<body>
<main>
@BODY@
</main>
<script>@SCRIPT@</script>
</body>
</html>
"""

_STYLE = """
:root { --ink: #1b1f24; --faint: #5b6470; --page: #ffffff; --line: #dfe3e8; --panel: #f6f7f9;
  --mark: #d55e00; --link: #0067a3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --faint: #9aa3ad; --page: #15181c; --line: #30363d; --panel: #1b1f24;
    --mark: #f0813a; --link: #6bb8ea; }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 112rem; margin: 0 auto; padding: 2.25rem 2rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .35rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1rem; line-height: 1.3; margin: 1.5rem 0 -.75rem; overflow-wrap: anywhere; }
p, ul { max-width: 80ch; margin: .5rem 0; }
ul { padding-left: 1.2rem; }
li { margin: .3rem 0; overflow-wrap: anywhere; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.faint { color: var(--faint); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; margin: .75rem 0 0;
  font-size: .875rem; }
.numbers { display: grid; gap: .75rem; margin: 1.5rem 0 0; padding: 0;
  grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); }
.numbers div { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem;
  padding: .8rem 1rem; min-width: 0; }
.numbers dt { color: var(--faint); font-size: .8125rem; overflow-wrap: anywhere; }
.numbers dd { margin: 0; }
.numbers .value { font-size: 1.5rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.numbers .more { color: var(--faint); font-size: .8125rem; font-variant-numeric: tabular-nums; }
.reading { border-left: 3px solid var(--mark); padding-left: 1.1rem; list-style: none;
  margin-left: 0; }
.figures { display: grid; gap: 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 46rem), 1fr)); }
figure { margin: 0; padding: 1rem 1.1rem .9rem; border: 1px solid var(--line);
  border-radius: .5rem; min-width: 0; }
figure img { display: block; width: 100%; height: auto; margin: 0; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .8125rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .65rem; text-align: right; white-space: nowrap; }
th small { display: block; font-weight: 400; font-size: .75rem; }
th { color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--line);
  vertical-align: bottom; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; }
th button:hover { color: var(--ink); text-decoration: underline; }
th button::after { content: "\\2195"; margin-left: .2rem; opacity: .35; }
th[aria-sort=ascending] button::after { content: "\\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\\2193"; opacity: 1; }
th[aria-sort=ascending], th[aria-sort=descending] { color: var(--ink); }
th.text, td.text { text-align: left; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--page); }
tbody tr:nth-child(even) td { background: var(--panel); }
tbody tr:target td { background: color-mix(in srgb, var(--mark) 18%, var(--page)); }
tr.flagged td:first-child { box-shadow: inset 3px 0 0 var(--mark); }
td.text:not(:first-child) { color: var(--faint); }
details { margin: 1.5rem 0 0; } summary { cursor: pointer; font-weight: 600; }
details .figures { margin-top: 1rem; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; margin: 0; }
dl.facts dt { color: var(--faint); font-size: .875rem; }
dl.facts dd { margin: 0; font-size: .875rem; overflow-wrap: anywhere; }
code { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 40rem) { main { padding: 1.25rem 1rem 3rem; } }
@media print { main { padding: 0; max-width: none; } figure, tr { break-inside: avoid; }
  nav { display: none; } th button::after { content: ""; } }
"""

_SCRIPT = """
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
