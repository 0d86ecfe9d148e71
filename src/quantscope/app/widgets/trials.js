function render({ model, el }) {
  let by = null;
  let down = true;
  const head = element("tr");
  const body = element("tbody");
  const root = element("div", { class: "qs-trials", "data-testid": "trials" },
    element("table", {}, element("thead", {}, head), body));
  const none = element("p", { class: "none", text: "What is tried is listed here, with its accuracies; each model can be opened." });
  el.append(root, none);

  function sorted(rows) {
    if (by === null) return rows;
    const value = (row) => row.sort[by];
    return [...rows].sort((a, b) => {
      if (value(a) === null || value(b) === null) return (value(a) === null) - (value(b) === null);
      const order = value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0;
      return down ? -order : order;
    });
  }

  function draw() {
    const columns = model.get("columns");
    const rows = model.get("rows");
    root.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    head.replaceChildren(...columns.map((column, place) => element("th", {
      class: column.right ? "right" : null, "aria-sort": by === place ? (down ? "descending" : "ascending") : null },
      element("button", { type: "button", text: column.label, "data-word": column.word,
        onclick: () => { down = by === place ? !down : true; by = place; draw(); } }))), element("th"));
    body.replaceChildren(...sorted(rows).map((row) => element("tr", {
      class: row.opened ? "opened" : null, "data-testid": `trial-${row.key}`, title: row.note },
      ...row.cells.map((cell, place) => element("td", { class: columns[place].right ? "right" : null, text: cell })),
      element("td", {}, row.key
        ? element("button", { type: "button", text: row.opened ? "shown" : "open", disabled: row.opened,
            "data-testid": "trial-open", onclick: () => model.send({ do: "open", key: row.key }) })
        : null))));
  }
  model.on("change:rows", draw);
  model.on("change:columns", draw);
  draw();
  return () => { model.off("change:rows", draw); model.off("change:columns", draw); };
}

export default { render };
