"""The looks of a comparison's page, beside what all pages share."""

COMPARISON_STYLE = """
html { scroll-padding-top: 1rem; }
main { max-width: 112rem; margin: 0 auto; padding: 2.25rem 2rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .35rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1rem; line-height: 1.3; margin: 1.5rem 0 -.75rem; overflow-wrap: anywhere; }
p, ul { max-width: 80ch; margin: .5rem 0; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
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
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--page); }
tbody tr:nth-child(even) td { background: var(--panel); }
tbody tr:target td { background: color-mix(in srgb, var(--mark) 18%, var(--page)); }
tr.flagged td:first-child { box-shadow: inset 3px 0 0 var(--mark); }
td.text:not(:first-child) { color: var(--faint); }
details { margin: 1.5rem 0 0; } summary { cursor: pointer; font-weight: 600; }
details .figures { margin-top: 1rem; }
code { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 40rem) { main { padding: 1.25rem 1rem 3rem; } }
@media print { main { padding: 0; max-width: none; } figure, tr { break-inside: avoid; }
  nav { display: none; } th button::after { content: ""; } }
"""
