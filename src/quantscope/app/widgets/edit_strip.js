const SHOWN = 6;

function render({ model, el }) {
  let all = false;
  const root = element("div", { class: "qs-edits", "data-testid": "edits", hidden: true });
  el.append(root);
  // It stays in view; what else stays stands below it.
  const page = document.documentElement.style;
  const sized = new ResizeObserver(() => page.setProperty("--qs-strip", root.hidden || root.classList.contains("none") ? "0px" : `${root.offsetHeight}px`));
  sized.observe(root);

  function draw() {
    const items = model.get("items") ?? [];
    const numbers = model.get("numbers") ?? {};
    const canUndo = model.get("can_undo");
    const canRedo = model.get("can_redo");
    root.hidden = !items.length && !canUndo && !canRedo;
    root.classList.toggle("none", !items.length);
    root.replaceChildren(
      element("div", { class: "numbers" + (numbers.stale ? " stale" : ""), hidden: !items.length, "aria-busy": String(Boolean(numbers.stale || !numbers.value)) },
        element("span", { class: "label", text: numbers.label ?? "edited" }),
        element("span", { class: "value", "data-testid": "edited-accuracy", text: numbers.value ?? "…" }),
        element("span", { class: "delta", "data-testid": "edited-delta", text: numbers.delta ?? "" }),
        element("span", { class: "note", text: numbers.stale ? "of the edits before; measuring these…" : numbers.note ?? "" })),
      element("div", { class: "chips" },
        ...items.slice(0, all ? items.length : SHOWN).map((item, place) => element("span", { class: "chip" + (item.warning ? " warned" : ""), title: item.warning || item.text },
          item.select
            ? element("button", { type: "button", class: "what", text: item.text, "data-select": JSON.stringify(item.select) })
            : element("span", { text: item.text }),
          element("button", { type: "button", text: "×", "aria-label": `Take back: ${item.text}`, "data-testid": `remove-edit-${place}`,
            onclick: () => model.send({ do: "remove", place, text: item.text }) }))),
        element("button", { type: "button", class: "clear", hidden: items.length <= SHOWN, text: all ? "fewer" : `and ${items.length - SHOWN} more`,
          onclick: () => { all = !all; draw(); } }),
        items.length ? null : element("span", { class: "note", text: "Nothing is edited any more." }),
        element("button", { type: "button", class: "clear", text: items.length > 1 ? "take all back" : "take it back", hidden: !items.length,
          "data-testid": "clear-edits", onclick: () => model.send({ do: "clear" }) }),
        element("button", { type: "button", class: "clear", text: items.length ? "undo" : "edit as before", hidden: !canUndo, title: "back to what was in force before (Ctrl+Z)",
          "data-testid": "undo", onclick: () => model.send({ do: "undo" }) }),
        element("button", { type: "button", class: "clear", text: "redo", hidden: !canRedo, title: "forth again (Ctrl+Shift+Z)",
          "data-testid": "redo", onclick: () => model.send({ do: "redo" }) })));
  }
  model.on("change:items", draw);
  model.on("change:numbers", draw);
  model.on("change:can_undo", draw);
  model.on("change:can_redo", draw);
  draw();
  return () => { sized.disconnect(); page.removeProperty("--qs-strip"); for (const name of ["items", "numbers", "can_undo", "can_redo"]) model.off(`change:${name}`, draw); };
}

export default { render };
