function render({ model, el }) {
  const quant = element("input", { type: "text", spellcheck: "false", "data-testid": "open-path",
    placeholder: "resnet8-int8, or a path" });
  const float = element("input", { type: "text", spellcheck: "false", "data-testid": "open-float",
    placeholder: "left out: the one it says it was made from" });
  const data = element("input", { type: "text", spellcheck: "false", "data-testid": "open-data",
    placeholder: "left out: CIFAR-10 test images if they fit, else random rows" });
  const bundled = element("div", { class: "bundled" });
  const error = element("p", { class: "error", role: "alert", "data-testid": "open-error", hidden: true });
  const go = element("button", { type: "submit", class: "go", text: "Open", "data-testid": "open-go" });
  const form = element("form", { class: "card", hidden: true },
    element("p", { class: "lead", text: "Models that come with quantscope" }), bundled,
    element("label", {}, "or a file: quantized model", quant),
    element("label", {}, "its float model", float),
    element("label", {}, "data to measure with: FILE.npz, a folder of pictures, or random", data),
    error,
    element("div", { class: "row" }, go,
      element("button", { type: "button", text: "Close", onclick: () => show(false) })));
  const toggle = element("button", { type: "button", class: "toggle", text: "open a model", "aria-expanded": "false",
    "data-testid": "open-toggle", onclick: () => show(form.hidden) });
  const root = element("div", { class: "qs-opener" }, toggle, form);
  el.append(root);

  function show(on) {
    form.hidden = !on;
    toggle.setAttribute("aria-expanded", String(on));
    if (on) quant.focus(); else toggle.focus();
  }

  // A person who gives what is missing does not have to type again what is there.
  function fill() {
    const given = model.get("given");
    for (const [field, key] of [[quant, "model"], [float, "float"], [data, "data"]]) field.value = given[key] ?? "";
  }

  function want() {
    const field = { float, data }[model.get("asked").field];
    if (!field) return;
    fill();
    show(true);
    // In the next frame: what is redrawn in this one would take the focus away again.
    requestAnimationFrame(() => field.focus());
  }

  function ask(path, floatPath = "", dataPath = "") {
    error.hidden = true;
    model.send({ do: "open", model: path, float_model: floatPath, data: dataPath });
  }

  function draw() {
    bundled.replaceChildren(...model.get("bundled").map((name) => element("button", {
      type: "button", text: name, "data-testid": `open-${name}`,
      "aria-pressed": String(name === model.get("model_path")), onclick: () => ask(name),
    })));
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    go.disabled = model.get("busy");
    go.textContent = model.get("busy") ? "Opening…" : "Open";
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(quant.value.trim(), float.value.trim(), data.value.trim());
  });
  root.addEventListener("keydown", (event) => { if (event.key === "Escape") show(false); });
  const close = () => { form.hidden = true; toggle.setAttribute("aria-expanded", "false"); };
  const watched = ["bundled", "model_path", "error", "busy"].map((name) => `change:${name}`);
  for (const name of watched) model.on(name, draw);
  model.on("change:opened", close);
  model.on("change:asked", want);
  document.documentElement.dataset.qsOpener = "ready";
  draw();
  return () => {
    for (const name of watched) model.off(name, draw);
    model.off("change:opened", close);
    model.off("change:asked", want);
  };
}

export default { render };
