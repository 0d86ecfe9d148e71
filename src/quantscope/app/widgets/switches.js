function render({ model, el }) {
  const main = element("div", { class: "main" });
  const list = element("div", { class: "list" });
  const summary = element("summary", { "data-testid": "choose-layers" });
  const chooser = element("details", {}, summary, list);
  const error = element("p", { class: "error", role: "alert", "data-testid": "switch-error" });
  el.append(element("div", { class: "qs-switches", "data-testid": "switches" },
    element("span", { class: "lead", text: "quantized" }), main, chooser, error));

  function ask(item, on) {
    model.send({ do: "switch", kind: item.kind, key: item.key, on });
  }

  // A switch moves at once; what Python makes of it comes back as a trait.
  function toggle(event, item) {
    const on = item.state !== "on";
    event.currentTarget.setAttribute("aria-checked", String(on));
    ask(item, on);
  }

  function drawMain() {
    main.replaceChildren(...model.get("main").map((item) => element("button", {
      type: "button", role: "switch", class: item.state, title: item.hint,
      "aria-checked": item.state === "some" ? "mixed" : String(item.state === "on"),
      "data-testid": `switch-${item.kind}${item.kind === "role" ? `-${item.key}` : ""}`,
      onclick: (event) => toggle(event, item),
    }, element("i", { class: "knob" }), element("span", { text: item.label }))));
  }

  function drawLayers() {
    const layers = model.get("layers");
    const off = layers.filter((item) => item.state !== "on").length;
    summary.textContent = off ? `choose layers (${off} of ${layers.length} not as the model has them)` : "choose layers";
    chooser.hidden = !layers.length;
    list.replaceChildren(...layers.map((item) => {
      const box = element("input", { type: "checkbox", "data-testid": `layer-switch-${item.key}` });
      box.checked = item.state !== "off";
      box.indeterminate = item.state === "some";
      box.addEventListener("change", () => ask(item, box.checked));
      return element("label", { class: item.state }, box, item.label);
    }));
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
  }

  model.on("change:main", drawMain);
  model.on("change:layers", drawLayers);
  model.on("change:error", drawLayers);
  drawMain();
  drawLayers();
  return () => {
    model.off("change:main", drawMain);
    model.off("change:layers", drawLayers);
    model.off("change:error", drawLayers);
  };
}

export default { render };
