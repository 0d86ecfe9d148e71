function render({ model, el }) {
  const values = {};
  const error = element("p", { class: "error", role: "alert", "data-testid": "lab-error", hidden: true });
  const grid = element("div", { class: "grid" });
  const buttons = [
    element("button", { type: "submit", class: "go", text: "Quantize and measure", "data-testid": "lab-try" }),
    element("button", { type: "button", text: "compare calibration methods", "data-testid": "lab-methods", onclick: () => ask("methods") }),
    element("button", { type: "button", text: "compare calibration sizes", "data-testid": "lab-sizes", onclick: () => ask("sizes") }),
  ];
  const form = element("form", { class: "qs-ptq", novalidate: true }, grid,
    element("div", { class: "row" }, ...buttons), error);
  el.append(form);

  function ask(what) {
    error.hidden = true;
    model.send({ do: what, values: shown() });
  }

  // A choice of the other framework keeps its value, but is not sent.
  function shown() {
    return Object.fromEntries(fields().map((field) => [field.key, values[field.key]]));
  }

  function fields() {
    return model.get("fields").filter((field) => !field.framework || field.framework === values.framework);
  }

  function control(field) {
    const common = { name: field.key, "data-testid": `lab-${field.key}` };
    if (field.kind === "choice") {
      const options = field.options.map(([key, label]) =>
        element("option", { value: key, text: label, selected: key === values[field.key] }));
      return element("select", common, ...options);
    }
    if (field.kind === "check") return element("input", { ...common, type: "checkbox", checked: Boolean(values[field.key]) });
    const made = element("input", { ...common, type: field.kind === "number" ? "number" : "text", step: "any",
      spellcheck: "false", placeholder: field.placeholder ?? "" });
    made.value = values[field.key] ?? "";
    return made;
  }

  function draw() {
    for (const field of model.get("fields")) values[field.key] ??= field.value;
    grid.replaceChildren(...fields().map((field) => {
      const made = control(field);
      made.addEventListener("change", () => {
        values[field.key] = field.kind === "check" ? made.checked : made.value.trim();
        if (field.key === "framework") draw();
      });
      const name = element("span", { text: field.label, "data-word": field.word });
      return element("label", { class: field.kind }, ...(field.kind === "check" ? [made, name] : [name, made]));
    }));
    show();
  }

  function show() {
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    for (const button of buttons) button.disabled = model.get("busy");
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); ask("try"); });
  const watched = { "change:fields": draw, "change:error": show, "change:busy": show };
  for (const [name, what] of Object.entries(watched)) model.on(name, what);
  draw();
  return () => { for (const [name, what] of Object.entries(watched)) model.off(name, what); };
}

export default { render };
