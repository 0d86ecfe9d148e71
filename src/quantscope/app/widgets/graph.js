const MARGIN = 10;
const LARGEST = 4;
const NEARLY = 0.7; // shrunk by no more than this, all of the network is shown at first

function render({ model, el }) {
  const picker = element("select", { "aria-label": "Colour layers by", "data-testid": "colour-by" });
  const legend = element("div", { class: "legend", "data-testid": "legend" });
  const svg = element("svg", {
    tabindex: 0,
    role: "listbox",
    "aria-label": "The network. Arrow keys move along it, Enter selects, plus and minus zoom.",
    "data-testid": "graph",
  });
  const scene = element("g");
  const hover = element("div", { class: "hover", hidden: true });
  const zoom = (label, name, act) =>
    element("button", { type: "button", "aria-label": name, title: name, text: label, onclick: act });
  const stage = element("div", { class: "stage" }, svg,
    element("div", { class: "zoom" },
      zoom("+", "Zoom in", () => zoomBy(1.25)),
      zoom("−", "Zoom out", () => zoomBy(0.8)),
      zoom("⤢", "Whole network", () => { fit(true); place(); }),
    ), hover);
  svg.append(scene);
  const root = element("div", { class: "qs-graph" },
    element("div", { class: "bar" },
      element("label", {},
        element("span", { class: "qs-word", "data-word": "colour", text: "colour by" }), picker),
      legend),
    stage);
  el.append(root);

  let view = { x: 0, y: 0, k: 1 };
  let cursor = null;
  let boxes = new Map();
  let touched = false;
  let told = null;

  const drawing = () => model.get("drawing");
  const metric = () => (model.get("metrics") ?? []).find((m) => m.key === model.get("metric"));
  const nodeOf = (selection) =>
    (drawing().nodes ?? []).find((n) => n.selects &&
      (selection.layer ? n.selects.layer === selection.layer : n.selects.tensor === selection.tensor));

  function draw() {
    const { nodes = [], links = [], node_width: w, node_height: h } = drawing();
    scene.replaceChildren();
    boxes = new Map();
    for (const link of links) {
      const [[x, y], ...rest] = link.curve;
      const d = `M${x},${y}C${rest.map((p) => p.join(",")).join(" ")}`;
      const group = element("g", { class: "link" + (link.shortcut ? " shortcut" : "") + (link.float ? " float" : "") },
        element("path", { class: "wide", d }), element("path", { class: "line", d }));
      group.addEventListener("pointermove", (event) => tell(event, link.hover));
      group.addEventListener("pointerleave", hush);
      scene.append(group);
    }
    for (const node of nodes) {
      const [x, y] = node.place;
      const box = element("g", {
        class: `node ${node.kind}`, id: `qs-${node.key}`, role: "option", "data-layer": node.name,
        "aria-label": node.name, "aria-selected": "false",
        transform: `translate(${x - w / 2},${y - h / 2})`,
      });
      const name = clipped(node.name, 20);
      box.append(
        element("rect", { class: "tint", width: w, height: h, rx: 6 }),
        element("rect", { class: "frame", width: w, height: h, rx: 6 }),
        element("rect", { class: "swatch", x: 5, y: 5, width: 9, height: h - 10, rx: 2 }),
        element("text", { class: "name", x: 21, y: h / 2 + 4, text: name }),
        element("text", { text: " " }), // it keeps the two apart where they are read aloud
        element("text", { class: "value", x: w - 8, y: h / 2 + 4, "text-anchor": "end" }),
      );
      if (node.selects) {
        box.addEventListener("click", () => { hush(); told = node.key; cursor = node.key; select(model, node.selects); mark(node.selects); });
      } else box.classList.add("inert");
      // After a click the factors stay away until the pointer comes back: they are on the page now.
      box.addEventListener("pointermove", (event) => { if (told !== node.key) tell(event, factors(node)); });
      box.addEventListener("pointerleave", () => { told = null; hush(); });
      scene.append(box);
      boxes.set(node.key, box);
    }
    paint();
    mark(model.get("selection"));
  }

  function paint() {
    const found = metric();
    const all = model.get("metrics") ?? [];
    picker.replaceChildren(...all.map((m) =>
      element("option", { value: m.key, text: m.label, selected: m.key === model.get("metric") })));
    for (const [key, box] of boxes) {
      const colour = found?.colours[key];
      const text = found?.texts[key] ?? "";
      box.style.setProperty("--swatch", colour ?? "transparent");
      box.classList.toggle("blank", !colour);
      box.querySelector(".value").textContent = text;
      // What is read aloud begins with what is seen.
      const name = box.querySelector(".name").textContent, whole = box.dataset.layer;
      box.setAttribute("aria-label", [name, text, name === whole ? "" : whole].filter(Boolean).join(" "));
    }
    const note = model.get("note");
    legend.replaceChildren(...legendParts(found),
      ...(note && found ? [element("span", { class: "note", text: note, "data-testid": "legend-note" })] : []));
  }

  function legendParts(found) {
    if (!found) return [];
    if (found.classes.length) {
      return found.classes.flatMap(([name, colour]) => [
        element("i", { class: "chip", style: `background:${colour}` }), element("span", { text: name })]);
    }
    if (!found.stops.length) return [element("span", { class: "waiting", text: found.waiting || "no value" })];
    return [
      element("span", { text: found.low }),
      element("i", { class: "ramp", style: `background:linear-gradient(90deg,${found.stops.join(",")})` }),
      element("span", { text: found.high }),
      ...(found.waiting ? [element("span", { class: "waiting", text: found.waiting })] : []),
    ];
  }

  function mark(selection) {
    const chosen = nodeOf(selection ?? {});
    for (const [key, box] of boxes) {
      const on = key === chosen?.key;
      box.classList.toggle("selected", on);
      box.setAttribute("aria-selected", String(on));
    }
    if (chosen) {
      if (cursor === null || document.activeElement === null || !svg.matches(":focus")) cursor = chosen.key;
      reveal(chosen);
    }
    point();
  }

  function point() {
    for (const [key, box] of boxes) box.classList.toggle("cursor", key === cursor);
    if (cursor) svg.setAttribute("aria-activedescendant", `qs-${cursor}`);
  }

  function fit(whole) {
    const { width = 1, height = 1 } = drawing();
    const { clientWidth: cw, clientHeight: ch } = svg;
    if (!cw || !ch) return;
    const across = (cw - 2 * MARGIN) / width;
    const all = Math.min(across, (ch - 2 * MARGIN) / height);
    view.k = Math.min(1.25, whole || all > NEARLY * across ? all : across);
    view.x = (cw - width * view.k) / 2;
    view.y = MARGIN;
    stage.style.maxHeight = `${Math.ceil(height * Math.min(1.25, across) + 2 * MARGIN)}px`;
  }

  function place() {
    keepInside();
    scene.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`);
    svg.classList.toggle("goes-on", view.y + (drawing().height ?? 0) * view.k > svg.clientHeight);
  }

  function keepInside() {
    const { width = 1, height = 1 } = drawing();
    const hold = (at, size, room) => {
      const spare = room - size * view.k;
      return spare >= 2 * MARGIN
        ? Math.min(Math.max(at, MARGIN), spare - MARGIN)
        : Math.min(Math.max(at, spare - MARGIN), MARGIN);
    };
    view.x = hold(view.x, width, svg.clientWidth);
    view.y = hold(view.y, height, svg.clientHeight);
  }

  function zoomBy(factor, x = svg.clientWidth / 2, y = svg.clientHeight / 2) {
    const k = Math.min(LARGEST, Math.max(0.05, view.k * factor));
    view.x = x - ((x - view.x) * k) / view.k;
    view.y = y - ((y - view.y) * k) / view.k;
    view.k = k;
    touched = true;
    place();
  }

  function reveal(node) {
    const { node_height: h, node_width: w } = drawing();
    const [x, y] = node.place;
    const top = view.y + (y - h) * view.k, bottom = view.y + (y + h) * view.k;
    const left = view.x + (x - w / 2) * view.k, right = view.x + (x + w / 2) * view.k;
    if (top < 0) view.y -= top - MARGIN;
    else if (bottom > svg.clientHeight) view.y -= bottom - svg.clientHeight + MARGIN;
    if (left < 0) view.x -= left - MARGIN;
    else if (right > svg.clientWidth) view.x -= right - svg.clientWidth + MARGIN;
    place();
  }

  function factors(node) {
    const lines = (model.get("metrics") ?? [])
      .filter((m) => m.texts[node.key])
      .map((m) => `${m.label}  ${m.texts[node.key]}`);
    return lines.length ? `${node.hover}\n\n${lines.join("\n")}` : node.hover;
  }

  function tell(event, text) {
    if (event.buttons) { hush(); return; }
    hover.textContent = text;
    hover.hidden = false;
    const left = Math.min(event.clientX + 14, window.innerWidth - hover.offsetWidth - 8);
    const top = Math.min(event.clientY + 14, window.innerHeight - hover.offsetHeight - 8);
    hover.style.left = `${Math.max(8, left)}px`;
    hover.style.top = `${Math.max(8, top)}px`;
  }

  function hush() { hover.hidden = true; }

  function neighbour(direction) {
    const { nodes, links } = drawing();
    const here = nodes.find((n) => n.key === cursor) ?? nodes[0];
    const reachable = (n) => n && n.selects;
    if (direction === "down" || direction === "up") {
      const [from, to] = direction === "down" ? ["source", "target"] : ["target", "source"];
      const ways = links.filter((l) => l[from] === here.key)
        .sort((a, b) => Number(a.shortcut) - Number(b.shortcut));
      return ways.map((l) => nodes.find((n) => n.key === l[to])).find(reachable);
    }
    const sign = direction === "right" ? 1 : -1;
    const distance = (n) => Math.abs(n.place[1] - here.place[1]) * 2 + Math.abs(n.place[0] - here.place[0]);
    return nodes.filter((n) => reachable(n) && sign * (n.place[0] - here.place[0]) > 1)
      .sort((a, b) => distance(a) - distance(b))[0];
  }

  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: "down", ArrowUp: "up", ArrowLeft: "left", ArrowRight: "right" };
    const { nodes = [] } = drawing();
    const selectable = nodes.filter((n) => n.selects);
    let to = null;
    if (moves[event.key]) to = neighbour(moves[event.key]);
    else if (event.key === "Home") to = selectable[0];
    else if (event.key === "End") to = selectable.at(-1);
    else if (event.key === "Enter" || event.key === " ") {
      const here = nodes.find((n) => n.key === cursor);
      if (here?.selects) { select(model, here.selects); mark(here.selects); }
    } else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") { fit(true); place(); }
    else return;
    event.preventDefault();
    if (to) { cursor = to.key; point(); reveal(to); }
  });

  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      zoomBy(Math.exp(-event.deltaY / 200), event.clientX - box.left, event.clientY - box.top);
    } else {
      view.x -= event.deltaX;
      view.y -= event.deltaY;
      touched = true;
      place();
    }
    hush();
  }, { passive: false });

  let grip = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    grip = { x: event.clientX - view.x, y: event.clientY - view.y, id: event.pointerId, moved: false, at: [event.clientX, event.clientY] };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const far = Math.hypot(event.clientX - grip.at[0], event.clientY - grip.at[1]);
    if (!grip.moved && far < 4) return;
    // The capture waits for a real drag: with it, a click would go to the picture, not the node.
    if (!grip.moved) { grip.moved = true; svg.setPointerCapture(grip.id); svg.classList.add("dragging"); hush(); }
    view.x = event.clientX - grip.x;
    view.y = event.clientY - grip.y;
    touched = true;
    place();
  });
  const drop = () => { grip = null; svg.classList.remove("dragging"); };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", drop);

  picker.addEventListener("change", () => {
    model.set("metric", picker.value);
    model.save_changes();
    paint();
  });

  const redraw = () => { touched = false; cursor = null; draw(); fit(false); place(); mark(model.get("selection")); };
  model.on("change:drawing", redraw);
  model.on("change:metrics", paint);
  model.on("change:metric", paint);
  model.on("change:note", paint);
  const silence = onSelection(model, mark);
  const watch = new ResizeObserver(() => {
    if (!touched) fit(false);
    const chosen = nodeOf(model.get("selection") ?? {});
    place();
    if (chosen) reveal(chosen);
  });
  watch.observe(svg);
  redraw();
  return () => {
    watch.disconnect();
    silence();
    model.off("change:drawing", redraw);
    model.off("change:metrics", paint);
    model.off("change:metric", paint);
    model.off("change:note", paint);
  };
}

export default { render };
