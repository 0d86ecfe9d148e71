function render({ model, el }) {
  const root = element("div", { class: "qs-choice", role: "radiogroup", "aria-label": model.get("label") });
  el.append(root);

  function draw() {
    const value = model.get("value");
    const options = model.get("options");
    root.hidden = options.length < 2;
    root.replaceChildren(...options.map((option) => element("button", {
      type: "button", role: "radio", "aria-checked": String(option.key === value), tabindex: option.key === value ? 0 : -1,
      "data-testid": `choice-${option.key}`, "data-word": option.word, text: option.label, onclick: () => choose(option.key),
    })));
  }

  function choose(key) {
    model.set("value", key);
    model.save_changes();
    draw();
  }

  root.addEventListener("keydown", (event) => {
    const keys = model.get("options").map((option) => option.key);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(keys[(keys.indexOf(model.get("value")) + step + keys.length) % keys.length]);
    root.querySelector('[aria-checked="true"]').focus();
  });
  model.on("change:options", draw);
  model.on("change:value", draw);
  draw();
  return () => { model.off("change:options", draw); model.off("change:value", draw); };
}

export default { render };
