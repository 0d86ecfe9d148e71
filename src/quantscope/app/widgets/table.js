function render({ model, el }) {
  const search = element("input", { type: "search", placeholder: `Filter ${model.get("label")}`,
    "aria-label": `Filter ${model.get("label")}`, "data-testid": `filter-${model.get("label")}` });
  const counted = element("span", { class: "counted", role: "status" });
  const head = element("thead");
  const body = element("tbody");
  const scroller = element("div", { class: "scroller", tabindex: 0, "data-testid": `table-${model.get("label")}`,
    "aria-label": `Table of ${model.get("label")}; arrow keys select rows` },
    element("table", {}, head, body));
  el.append(element("div", { class: "qs-table" + (model.get("by_tensor") ? " tensors" : "") },
    element("div", { class: "bar" }, search, counted), scroller));

  let order = { column: null, descending: false };
  let shown = [];

  const metric = () => (model.get("metrics") ?? []).find((m) => m.key === model.get("metric"));
  const isChosen = (row, selection) => model.get("by_tensor")
    ? row.layer === (selection?.layer ?? "") && row.tensor === (selection?.tensor ?? "")
    : row.layer ? row.layer === selection?.layer : !selection?.layer && row.tensor === selection?.tensor;

  function columns() {
    const found = metric();
    const own = model.get("columns");
    return found ? [...own, { label: found.label, word: found.word, right: true, metric: found }] : own;
  }

  function value(row, column, at) {
    if (column.metric) return column.metric.values[row.key] ?? column.metric.texts[row.key] ?? null;
    return row.sort[at];
  }

  function compare(a, b) {
    if (a === b) return 0;
    if (a === null || a === undefined) return 2;
    if (b === null || b === undefined) return -2;
    if (typeof a === "number" && typeof b === "number") return a - b < 0 ? -1 : 1;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  function fill() {
    const all = columns();
    head.replaceChildren(element("tr", {}, ...all.map((column, at) => {
      const sorted = order.column === at ? (order.descending ? "descending" : "ascending") : "none";
      return element("th", { class: column.right ? "right" : "", "aria-sort": sorted },
        element("button", { type: "button", onclick: () => sortBy(at), "data-word": column.word || null },
          column.label, element("i", { text: { ascending: " ▴", descending: " ▾", none: "" }[sorted] })));
    })));
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = model.get("rows");
    shown = rows.filter((row) => {
      const text = row.cells.join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (order.column !== null && all[order.column]) {
      const column = all[order.column];
      const sign = order.descending ? -1 : 1;
      shown.sort((a, b) => {
        const found = compare(value(a, column, order.column), value(b, column, order.column));
        return Math.abs(found) === 2 ? found : sign * found;
      });
    }
    counted.textContent = shown.length === rows.length ? `${rows.length}` : `${shown.length} of ${rows.length}`;
    body.replaceChildren(...shown.map((row) => {
      const cells = all.map((column, at) => {
        if (!column.metric) return element("td", { class: column.right ? "right" : "", text: row.cells[at], title: row.cells[at] });
        const colour = column.metric.colours[row.key];
        return element("td", { class: "right metric" },
          element("span", { text: column.metric.texts[row.key] ?? "" }),
          element("i", { class: colour ? "chip" : "chip none", style: `background:${colour ?? "transparent"}` }));
      });
      return element("tr", { "data-layer": row.layer, "data-tensor": row.tensor, onclick: () => choose(row) }, ...cells);
    }));
  }

  function draw() {
    fill();
    mark(model.get("selection"));
  }

  // News leave the table where a person has scrolled it.
  function renew() {
    const top = scroller.scrollTop;
    fill();
    mark(model.get("selection"), true);
    scroller.scrollTop = top;
  }

  function sortBy(at) {
    if (order.column !== at) order = { column: at, descending: false };
    else if (!order.descending) order = { column: at, descending: true };
    else order = { column: null, descending: false };
    draw();
  }

  function choose(row) {
    const selection = { layer: row.layer, tensor: row.tensor };
    select(model, selection);
    mark(selection);
  }

  function mark(selection, quiet) {
    shown.forEach((row, at) => {
      const on = isChosen(row, selection);
      const line = body.children[at];
      line.classList.toggle("selected", on);
      line.classList.toggle("kin", !on && model.get("by_tensor") && !!row.layer && row.layer === selection?.layer);
      line.setAttribute("aria-selected", String(on));
      if (on && !quiet) reveal(line);
    });
  }

  // Not scrollIntoView: that would also scroll the page.
  function reveal(line) {
    const top = line.offsetTop - head.offsetHeight, bottom = line.offsetTop + line.offsetHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (bottom > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = bottom - scroller.clientHeight;
  }

  scroller.addEventListener("keydown", (event) => {
    const at = shown.findIndex((row) => isChosen(row, model.get("selection")));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined || event.target.tagName === "BUTTON") return;
    event.preventDefault();
    if (shown[to]) choose(shown[to]);
  });
  search.addEventListener("input", draw);

  const watched = ["change:columns", "change:rows", "change:metrics", "change:metric"];
  for (const name of watched) model.on(name, renew);
  const silence = onSelection(model, (selection) => mark(selection));
  draw();
  return () => {
    silence();
    for (const name of watched) model.off(name, renew);
  };
}

export default { render };
