function render({ model, el }) {
  const filter = element("select", { "data-testid": "image-filter", "aria-label": "which samples" });
  const where = element("span", { class: "where" });
  const step = (by, text, name) => element("button", { type: "button", text, "aria-label": name, "data-testid": `images-${name}`,
    onclick: () => set("page", Math.min(Math.max(model.get("page") + by, 0), model.get("pages") - 1)) });
  const back = step(-1, "‹", "previous");
  const next = step(1, "›", "next");
  const grid = element("div", { class: "grid", role: "listbox", "aria-label": "samples" });
  el.append(element("div", { class: "qs-thumbnails" },
    element("div", { class: "bar" }, filter, back, where, next), grid));

  function set(name, value) {
    model.set(name, value);
    model.save_changes();
  }

  function pick(index) {
    set("chosen", index);
    mark();
  }

  function mark() {
    for (const item of grid.children) {
      const chosen = Number(item.dataset.index) === model.get("chosen");
      item.setAttribute("aria-selected", String(chosen));
      item.tabIndex = chosen || (model.get("chosen") < 0 && item === grid.firstChild) ? 0 : -1;
    }
  }

  function drawFilters() {
    filter.replaceChildren(...model.get("filters").map((one) => element("option", {
      value: one.key, text: `${one.label} (${one.count.toLocaleString("en")})`, selected: one.key === model.get("filter") })));
  }

  function drawItems() {
    const focused = grid.contains(grid.getRootNode().activeElement);
    grid.replaceChildren(...model.get("items").map((item) => element("button", {
      type: "button", role: "option", "data-index": item.index, class: item.float === item.quantized ? null : "flipped",
      title: item.title,
      "data-testid": "thumbnail", onclick: () => pick(item.index) },
      item.src ? element("img", { src: item.src, alt: item.label ? `a ${item.label}` : item.title }) : element("span", { class: "none", text: item.text }),
      element("span", { class: item.wrong ? "said wrong" : "said", text: item.quantized }))));
    if (!model.get("items").length) grid.append(element("p", { text: "None is like that." }));
    where.textContent = `${model.get("page") + 1} of ${model.get("pages")}`;
    back.disabled = model.get("page") === 0;
    next.disabled = model.get("page") >= model.get("pages") - 1;
    mark();
    if (focused) grid.querySelector('[aria-selected="true"]')?.focus();
  }

  filter.addEventListener("change", () => set("filter", filter.value));
  grid.addEventListener("keydown", (event) => {
    const items = [...grid.querySelectorAll("button")];
    const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const to = items[items.indexOf(grid.getRootNode().activeElement) + by];
    if (!by || !to) return;
    event.preventDefault();
    pick(Number(to.dataset.index));
    to.focus();
  });
  const watched = { "change:filters": drawFilters, "change:filter": drawFilters, "change:items": drawItems,
    "change:page": drawItems, "change:pages": drawItems, "change:chosen": mark };
  for (const [name, what] of Object.entries(watched)) model.on(name, what);
  drawFilters();
  drawItems();
  return () => { for (const [name, what] of Object.entries(watched)) model.off(name, what); };
}

export default { render };
