function render({ model, el }) {
  // What a person has unfolded stays so.
  function draw() {
    const open = new Set([...el.querySelectorAll("details[open]")].map((part) => part.dataset.key));
    el.innerHTML = model.get("html");
    for (const part of el.querySelectorAll("details")) part.open = open.has(part.dataset.key);
  }
  model.on("change:html", draw);
  draw();
  return () => model.off("change:html", draw);
}

export default { render };
