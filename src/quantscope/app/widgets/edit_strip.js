function render({ model, el }) {
  const root = element("div", { class: "qs-edits", "data-testid": "edits", hidden: true });
  el.append(root);

  function draw() {
    const items = model.get("items") ?? [];
    const numbers = model.get("numbers") ?? {};
    root.hidden = !items.length;
    root.replaceChildren(
      element("div", { class: "numbers" },
        element("span", { class: "label", text: numbers.label ?? "edited" }),
        element("span", { class: "value", "data-testid": "edited-accuracy", text: numbers.value ?? "…" }),
        element("span", { class: "delta", "data-testid": "edited-delta", text: numbers.delta ?? "" }),
        element("span", { class: "note", text: numbers.note ?? "" })),
      element("div", { class: "chips" },
        ...items.map((item, place) => element("span", { class: "chip" + (item.warning ? " warned" : ""), title: item.warning || item.text },
          element("span", { text: item.text }),
          element("button", { type: "button", text: "×", "aria-label": `Take back: ${item.text}`, "data-testid": `remove-edit-${place}`,
            onclick: () => model.send({ do: "remove", place, text: item.text }) }))),
        element("button", { type: "button", class: "clear", text: items.length > 1 ? "take all back" : "take it back",
          "data-testid": "clear-edits", onclick: () => model.send({ do: "clear" }) })));
  }
  model.on("change:items", draw);
  model.on("change:numbers", draw);
  draw();
  return () => { model.off("change:items", draw); model.off("change:numbers", draw); };
}

export default { render };
