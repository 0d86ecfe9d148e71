function render({ model, el }) {
  // What a person has unfolded stays so.
  function draw() {
    const open = new Set([...el.querySelectorAll("details[open]")].map((part) => part.dataset.key));
    el.innerHTML = model.get("html");
    for (const part of el.querySelectorAll("details")) part.open = open.has(part.dataset.key);
  }
  const wait = () => { el.style.opacity = model.get("busy") ? 0.55 : 1; };
  model.on("change:html", draw);
  model.on("change:busy", wait);
  draw();
  wait();
  return () => { model.off("change:html", draw); model.off("change:busy", wait); };
}

export default { render };
