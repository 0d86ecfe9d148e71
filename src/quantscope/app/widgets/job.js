function render({ model, el }) {
  const what = element("span", { class: "what", role: "status" });
  const bar = element("progress", { max: 1, value: 0 });
  const stop = element("button", { type: "button", text: "stop", "data-testid": "job-stop",
    onclick: () => model.send({ do: "stop" }) });
  const start = element("button", { type: "button", "data-testid": "job-start",
    onclick: () => model.send({ do: "start" }) });
  const error = element("span", { class: "error", role: "alert", "data-testid": "job-error" });
  const root = element("div", { class: "qs-job", "data-testid": "job" }, bar, what, stop, start, error);
  el.append(root);

  function draw() {
    const running = model.get("running");
    const total = model.get("total");
    root.classList.toggle("running", running);
    root.dataset.running = running;
    const share = total ? model.get("done") / total : 1;
    const counts = share < 1;
    if (counts) bar.value = share; else bar.removeAttribute("value");
    const name = model.get("what") || "Working";
    what.textContent = !running ? "" : counts ? `${name} ${Math.floor(100 * share)} %` : total ? `${name}, finishing…` : `${name}…`;
    start.textContent = model.get("offer");
    start.hidden = running || !model.get("offer");
    stop.hidden = bar.hidden = what.hidden = !running;
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
  }
  const watched = ["what", "done", "total", "running", "offer", "error"].map((name) => `change:${name}`);
  for (const name of watched) model.on(name, draw);
  draw();
  return () => { for (const name of watched) model.off(name, draw); };
}

export default { render };
