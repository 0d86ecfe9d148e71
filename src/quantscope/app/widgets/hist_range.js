const RANGE = "quantscope:range";
const MILLISECONDS = 60;
const HEIGHT = 168, TOP = 16, BOTTOM = 20;

function render({ model, el }) {
  let data = {};
  let lo = 0, hi = 0;
  let from = 0, to = 1;
  let held = null;
  let timer = 0, sentAt = 0;
  let n = model.get("edit")?.n ?? 0;

  const areas = { low: element("rect", { class: "clipped", y: TOP }), high: element("rect", { class: "clipped", y: TOP }) };
  const filled = element("path", { class: "filled" });
  const traced = element("path", { class: "traced" });
  const axis = element("g", { class: "axis" });
  const before = { low: element("line", { class: "before" }), high: element("line", { class: "before" }) };
  const said = { low: element("text", { class: "said", y: 11 }), high: element("text", { class: "said", y: 11 }) };
  const handles = { low: handle("low"), high: handle("high") };
  const svg = element("svg", { height: HEIGHT, "data-testid": "hist-range" },
    areas.low, areas.high, filled, traced, axis, before.low, before.high, handles.low, handles.high, said.low, said.high);
  const message = element("p", { class: "message" });
  const caption = element("p", { class: "caption" });
  const title = element("h2", { "data-testid": "tensor-name" });
  const facts = element("span", { class: "facts" });
  const siblings = element("div", { class: "siblings" });
  const head = element("div", { class: "head" }, title, facts, siblings);
  const stage = element("div", { class: "stage" }, svg, message, caption);
  const root = element("div", { class: "qs-hist" }, head, stage);
  el.append(root);

  function handle(end) {
    return element("g", { class: "handle", tabindex: 0, role: "slider", "aria-orientation": "horizontal",
      "aria-label": `${end} end of the range`, "data-testid": `handle-${end}` },
    element("rect", { class: "reach", x: -9, y: TOP, width: 18, height: HEIGHT - TOP - BOTTOM }),
    element("line", { class: "stem", y1: TOP, y2: HEIGHT - BOTTOM }),
    element("rect", { class: "grip", x: -5, y: (HEIGHT - BOTTOM + TOP) / 2 - 15, width: 10, height: 30, rx: 3 }),
    element("path", { class: "ribs", d: `M-1.5 ${(HEIGHT - BOTTOM + TOP) / 2 - 6}v12M1.5 ${(HEIGHT - BOTTOM + TOP) / 2 - 6}v12` }));
  }

  const width = () => Math.max(root.clientWidth, 120);
  const inset = 12;
  const x = (value) => inset + (value - from) / (to - from) * (width() - 2 * inset);
  const value = (px) => from + (px - inset) / (width() - 2 * inset) * (to - from);
  const inside = (px) => Math.max(2, Math.min(width() - 2, px));
  const tidy = (number) => Number(number.toPrecision(4));
  const shown = (number) => String(Number(number.toPrecision(4))).replace("-", "−");

  // The axis stays where it is while something moves; it grows when a range has left it.
  function fit() {
    const edges = data.edges;
    let low = Math.min(edges[0], data.base_lo, 0), high = Math.max(edges.at(-1), data.base_hi, 0);
    const most = 3 * (high - low);
    low = Math.max(Math.min(low, lo), low - most);
    high = Math.min(Math.max(high, hi), high + most);
    const room = 0.06 * (high - low) || 1;
    [from, to] = [low - room, high + room];
  }

  function stairs(counts, closed) {
    const most = Math.log1p(Math.max(...data.counts, ...(data.drawn ?? []), 1));
    const high = (count) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * 0.94 * Math.log1p(count) / most;
    const parts = [`M${x(data.edges[0]).toFixed(1)} ${HEIGHT - BOTTOM}`];
    counts.forEach((count, at) => {
      parts.push(`V${high(count).toFixed(1)}H${x(data.edges[at + 1]).toFixed(1)}`);
    });
    parts.push(`V${HEIGHT - BOTTOM}${closed ? "Z" : ""}`);
    return parts.join("");
  }

  function ticks() {
    const span = to - from;
    const rough = span / Math.max(3, Math.min(9, width() / 70));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(Number(at.toPrecision(10)));
    return found;
  }

  function draw() {
    const has = Boolean(data.edges?.length);
    title.textContent = data.title ?? "";
    facts.textContent = data.facts ?? "";
    siblings.replaceChildren(...(data.siblings ?? []).map((one) => element("button", {
      type: "button", text: one.text, "data-select": JSON.stringify(one.select), "aria-pressed": String(one.chosen) })));
    svg.style.display = has ? "" : "none";
    message.textContent = data.message ?? "";
    message.hidden = !data.message;
    caption.hidden = !has;
    if (!has) return;
    const w = width();
    svg.setAttribute("width", w);
    svg.setAttribute("viewBox", `0 0 ${w} ${HEIGHT}`);
    filled.setAttribute("d", stairs(data.counts, true));
    traced.setAttribute("d", data.drawn?.length ? stairs(data.drawn, false) : "");
    axis.replaceChildren(
      element("line", { x1: 0, x2: w, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      ...ticks().flatMap((at) => [
        element("line", { x1: x(at), x2: x(at), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
        element("text", { x: x(at), y: HEIGHT - 4, text: shown(at) })]));
    caption.textContent = data.caption ?? "";
    move();
  }

  function share(test) {
    let sum = 0;
    data.counts.forEach((count, at) => { if (test((data.edges[at] + data.edges[at + 1]) / 2)) sum += count; });
    return sum / (data.values || 1);
  }
  // A moved end may cut a bin in two, of which only the sum is known.
  function between(low, high) {
    let sum = 0;
    data.counts.forEach((count, at) => {
      const [left, right] = [data.edges[at], data.edges[at + 1]];
      const part = (Math.min(right, high) - Math.max(left, low)) / (right - left);
      if (part > 0) sum += count * Math.min(part, 1);
    });
    return sum / (data.values || 1);
  }
  const percent = (part, moved) => part === 0 ? "nothing clipped"
    : `${part < 0.0001 ? "< 0.01" : (moved ? "about " : "") + Number((100 * part).toPrecision(2))} % clipped`;

  function move() {
    if (!data.edges?.length) return;
    const half = (data.edges[1] - data.edges[0]) / 2;
    const w = width();
    const at = { low: inside(x(lo)), high: inside(x(hi)) };
    areas.low.setAttribute("x", 0);
    areas.low.setAttribute("width", at.low);
    areas.high.setAttribute("x", at.high);
    areas.high.setAttribute("width", Math.max(0, w - at.high));
    for (const area of Object.values(areas)) area.setAttribute("height", HEIGHT - TOP - BOTTOM);
    for (const [end, now, base] of [["low", lo, data.base_lo], ["high", hi, data.base_hi]]) {
      const moved = Math.abs(now - base) > 1e-6 * (data.base_hi - data.base_lo);
      const beyond = end === "low" ? (v) => v < lo - half : (v) => v > hi + half;
      const cut = end === "low" ? [-Infinity, lo] : [hi, Infinity];
      const lost = moved ? between(...cut) : share(beyond);
      const clipped = percent(lost, moved);
      handles[end].setAttribute("transform", `translate(${at[end].toFixed(1)} 0)`);
      handles[end].classList.toggle("still", !data.movable);
      handles[end].setAttribute("aria-valuenow", tidy(now));
      handles[end].setAttribute("aria-valuetext", `${shown(now)}, ${clipped}`);
      handles[end].setAttribute("tabindex", data.movable ? 0 : -1);
      before[end].style.display = moved ? "" : "none";
      for (const side of ["x1", "x2"]) before[end].setAttribute(side, x(base).toFixed(1));
      before[end].setAttribute("y1", TOP);
      before[end].setAttribute("y2", HEIGHT - BOTTOM);
      const past = x(now) < 0 ? "◂ " : x(now) > w ? " ▸" : "";
      const words = data.movable ? [shown(now), clipped] : [shown(now)];
      said[end].textContent = end === "low" ? past + words.join(" · ") : words.reverse().join(" · ") + past;
      said[end].setAttribute("x", end === "low" ? 2 : w - 2);
      said[end].setAttribute("text-anchor", end === "low" ? "start" : "end");
      said[end].classList.toggle("much", data.movable && lost > 0);
    }
  }

  function drag(end, wanted) {
    if (end === "low") lo = Math.min(tidy(wanted), 0); else hi = Math.max(tidy(wanted), 0);
    if (data.symmetric) { if (end === "low") hi = -lo; else lo = -hi; }
    move();
    window.dispatchEvent(new CustomEvent(RANGE, { detail: { tensor: data.tensor, lo, hi, from: "hist" } }));
    const waited = Date.now() - sentAt;
    if (waited >= MILLISECONDS) flush();
    else if (!timer) timer = setTimeout(flush, MILLISECONDS - waited);
  }

  function flush() {
    clearTimeout(timer);
    timer = 0;
    sentAt = Date.now();
    n += 1;
    model.set("edit", { tensor: data.tensor, lo, hi, n });
    model.save_changes();
  }

  svg.addEventListener("pointerdown", (event) => {
    if (!data.movable || event.button) return;
    const px = event.clientX - svg.getBoundingClientRect().left;
    const low = inside(x(lo)), high = inside(x(hi));
    const end = Math.abs(px - low) < Math.abs(px - high) || (low === high && px < low) ? "low" : "high";
    if (Math.abs(px - (end === "low" ? low : high)) > 14) return;
    event.preventDefault();
    held = { end, offset: px - x(end === "low" ? lo : hi) };
    if (Math.abs(held.offset) > 14) held.offset = 0;
    svg.setPointerCapture(event.pointerId);
    handles[end].focus();
    root.classList.add("dragging");
  });
  svg.addEventListener("pointermove", (event) => {
    if (!held) return;
    const px = Math.max(inset / 2, Math.min(width() - inset / 2, event.clientX - svg.getBoundingClientRect().left - held.offset));
    drag(held.end, value(px));
  });
  const release = () => {
    if (!held) return;
    held = null;
    root.classList.remove("dragging");
    if (timer) flush();
    arrived();
  };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);
  for (const [end, part] of Object.entries(handles)) {
    part.addEventListener("keydown", (event) => {
      const direction = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (!direction || !data.movable) return;
      event.preventDefault();
      drag(end, (end === "low" ? lo : hi) + direction * (event.shiftKey ? 10 : 1) * (to - from) / 200);
    });
  }

  function arrived() {
    if (held) return;
    data = model.get("data") ?? {};
    if (!timer) { lo = data.lo; hi = data.hi; }
    if (data.edges?.length) fit();
    draw();
  }

  const ranged = (event) => {
    const { tensor, from: sender } = event.detail;
    if (sender === "hist" || tensor !== data.tensor) return;
    ({ lo, hi } = event.detail);
    move();
  };
  const resized = new ResizeObserver(() => draw());
  resized.observe(root);
  window.addEventListener(RANGE, ranged);
  model.on("change:data", arrived);
  arrived();
  return () => {
    if (timer) flush();
    resized.disconnect();
    window.removeEventListener(RANGE, ranged);
    model.off("change:data", arrived);
  };
}

export default { render };
