"""Write a drawing as one page that needs nothing else: pan, zoom, search, light and dark."""

from quantscope.report.graph.drawing import Drawing
from quantscope.report.page import page


def to_html(drawing: Drawing, svg: str) -> str:
    """Make the page. `svg` is put into it as it is, without its XML declaration and document type.

    It begins as the reader's system is, and a button makes it light or dark.
    """
    stage = f'<main id="stage" tabindex="0">{svg[svg.index("<svg") :]}</main>'
    return page(
        drawing.title,
        _CONTROLS + stage,
        style=_STYLE,
        script=_SCRIPT,
        has_pictures=False,
        is_themed_by_system=False,
    )


_CONTROLS = """<header>
<input id="search" type="search" placeholder="Find a layer" aria-label="Find a layer">
<span id="found" role="status"></span>
<button id="fit" type="button">Whole</button>
<button id="natural" type="button">100 %</button>
<button id="theme" type="button" aria-label="Light or dark">Light / dark</button>
</header>
"""

_STYLE = """
:root { --paper: #ffffff; --ink: #1b1f24; --faint: #5f6873; --bar: #f5f6f8; --edge: #6b7480;
  --shortcut: #d55e00; --mark: #d55e00; }
:root.dark { --paper: #14171b; --ink: #e6e9ed; --faint: #a2abb5; --bar: #1d2126;
  --edge: #8a94a0; --shortcut: #ff8c3b; --mark: #ffb000; }
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; background: var(--paper); color: var(--ink);
  font: 14px/1.4 Helvetica, Arial, sans-serif; }
header { display: flex; gap: 8px; align-items: center; padding: 8px 12px; background: var(--bar); }
header input { flex: 0 1 280px; min-width: 0; }
header #found { flex: 1; color: var(--faint); white-space: nowrap; }
header input, header button { font: inherit; color: inherit; background: var(--paper);
  border: 1px solid var(--faint); border-radius: 5px; padding: 4px 10px; }
header button { cursor: pointer; }
main { flex: 1; min-height: 0; overflow: hidden; cursor: grab; touch-action: none; outline: none; }
main:focus-visible { box-shadow: inset 0 0 0 2px var(--mark); }
main.dragging { cursor: grabbing; }
main svg { display: block; width: 100%; height: 100%; user-select: none; }
.graph > polygon:first-of-type { fill: none; }
.graph > text[fill="#1b1f24"] { fill: var(--ink); }
.graph > text[fill="#5f6873"] { fill: var(--faint); }
.graph > text[fill="#d55e00"] { fill: var(--shortcut); }
.edge path { stroke: var(--edge); }
.edge polygon { fill: var(--edge); stroke: var(--edge); }
.edge text { fill: var(--faint); }
.edge.shortcut path { stroke: var(--shortcut); }
.edge.shortcut polygon { fill: var(--shortcut); stroke: var(--shortcut); }
.edge.shortcut text { fill: var(--shortcut); }
.node:hover > path, .node:hover > g > a > path, .node.hit > path, .node.hit > g > a > path
  { stroke: var(--mark); stroke-width: 3; stroke-dasharray: none; }
.searching .node:not(.hit) { opacity: .3; }
"""

_SCRIPT = """
const stage = document.getElementById('stage'), svg = stage.querySelector('svg');
const root = document.documentElement, search = document.getElementById('search');
const found = document.getElementById('found');
const nodes = [...svg.querySelectorAll('.node')];
const whole = svg.viewBox.baseVal;
const page = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
let view = { ...page }, hits = [], at = -1;

svg.removeAttribute('width');
svg.removeAttribute('height');

function show(next) {
  view = next;
  svg.setAttribute('viewBox', [view.x, view.y, view.w, view.h].join(' '));
}
function fit() { show({ ...page }); }
function natural() {
  const w = stage.clientWidth * 0.75, h = stage.clientHeight * 0.75;
  show({ x: page.x + Math.min(0, page.w - w) / 2, y: page.y + Math.min(0, page.h - h) / 2, w, h });
}
function toDrawing(event) {
  const p = new DOMPoint(event.clientX, event.clientY);
  return p.matrixTransform(svg.getScreenCTM().inverse());
}
function zoom(factor, centre) {
  const c = centre || { x: view.x + view.w / 2, y: view.y + view.h / 2 };
  const w = view.w * factor;
  if (w < 20 || w > page.w * 20 + 2000) return;
  show({ x: c.x - (c.x - view.x) * factor, y: c.y - (c.y - view.y) * factor,
    w, h: view.h * factor });
}
stage.addEventListener('wheel', event => {
  event.preventDefault();
  zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), toDrawing(event));
}, { passive: false });

let grip = null;
stage.addEventListener('pointerdown', event => {
  grip = toDrawing(event);
  stage.setPointerCapture(event.pointerId);
  stage.classList.add('dragging');
});
stage.addEventListener('pointermove', event => {
  if (!grip) return;
  const now = toDrawing(event);
  show({ ...view, x: view.x + grip.x - now.x, y: view.y + grip.y - now.y });
});
for (const end of ['pointerup', 'pointercancel']) stage.addEventListener(end, () => {
  grip = null;
  stage.classList.remove('dragging');
});
stage.addEventListener('keydown', event => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key === '+' || event.key === '=') zoom(0.8);
  else if (event.key === '-') zoom(1.25);
  else if (event.key === '0') fit();
  else if (step[event.key]) show({ ...view,
    x: view.x + step[event.key][0] * view.w / 10, y: view.y + step[event.key][1] * view.h / 10 });
  else return;
  event.preventDefault();
});

function goTo(node) {
  const box = node.getBoundingClientRect(), frame = svg.getScreenCTM().inverse();
  const a = new DOMPoint(box.left, box.top).matrixTransform(frame);
  const b = new DOMPoint(box.right, box.bottom).matrixTransform(frame);
  const w = Math.max((b.x - a.x) * 3, 400), h = w * stage.clientHeight / stage.clientWidth;
  show({ x: (a.x + b.x - w) / 2, y: (a.y + b.y - h) / 2, w, h });
}
function look() {
  const text = search.value.trim().toLowerCase();
  hits = text ? nodes.filter(n => (n.dataset.name || '').toLowerCase().includes(text)) : [];
  at = -1;
  for (const node of nodes) node.classList.toggle('hit', hits.includes(node));
  svg.classList.toggle('searching', hits.length > 0);
  found.textContent = !text ? '' : hits.length ? hits.length + ' found, Enter goes to the next'
    : 'no layer of this name';
}
search.addEventListener('input', look);
search.addEventListener('keydown', event => {
  if (event.key === 'Escape') { search.value = ''; look(); }
  if (event.key !== 'Enter' || !hits.length) return;
  at = (at + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
  goTo(hits[at]);
});
document.getElementById('fit').addEventListener('click', fit);
document.getElementById('natural').addEventListener('click', natural);
document.getElementById('theme').addEventListener('click', () => root.classList.toggle('dark'));
if (matchMedia('(prefers-color-scheme: dark)').matches) root.classList.add('dark');
natural();
"""
