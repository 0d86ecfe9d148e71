function render({ model, el }) {
  const canvas = element("canvas", { tabindex: 0, role: "img", "data-testid": "feature-map" });
  const mark = element("i", { class: "mark" });
  const slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "channel", "data-testid": "trace-channel" });
  const number = element("input", { type: "number", min: 0, step: 1, "aria-label": "channel" });
  const said = element("p", { class: "said", role: "status" });
  const title = element("h2");
  const channel = element("label", {}, "channel", slider, number);
  el.append(element("div", { class: "qs-map" }, title,
    element("div", { class: "frame" }, canvas, mark), channel, said));

  const rows = () => model.get("values");
  const size = () => [rows().length, rows()[0]?.length ?? 0];

  function put(place) {
    const [height, width] = size();
    const within = (value, most) => Math.min(Math.max(value, 0), Math.max(most - 1, 0));
    const next = [within(place[0], model.get("channels")), within(place[1], height), within(place[2], width)];
    if (String(next) === String(model.get("place"))) return;
    model.set("place", next);
    model.save_changes();
    show();
  }

  function draw() {
    const [height, width] = size();
    canvas.width = Math.max(width, 1);
    canvas.height = Math.max(height, 1);
    canvas.style.aspectRatio = `${canvas.width} / ${canvas.height}`;
    const [low, high] = [model.get("low"), model.get("high")];
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    rows().flat().forEach((value, at) => {
      const share = Math.min(Math.max((value - low) / Math.max(high - low, 1), 0), 1);
      image.data.set([255 * share ** 1.6, 40 + 190 * share, 90 + 120 * Math.sqrt(share) * (1 - 0.6 * share), 255], 4 * at);
    });
    context.putImageData(image, 0, 0);
    slider.max = number.max = model.get("channels") - 1;
    channel.hidden = model.get("channels") < 2;
    title.textContent = model.get("title");
    show();
  }

  function show() {
    const [c, y, x] = model.get("place");
    const [height, width] = size();
    slider.value = number.value = c;
    mark.hidden = !height;
    mark.style.cssText = `left:${(100 * x) / width}%;top:${(100 * y) / height}%;width:${100 / width}%;height:${100 / height}%`;
    const value = rows()[y]?.[x];
    const at = model.get("is_vector") ? `value ${y * width + x}` : `channel ${c}, row ${y}, column ${x}`;
    canvas.setAttribute("aria-label", `${model.get("title") || "Nothing to show"}: values as shades; arrow keys move, ${at}`);
    said.textContent = value === undefined ? "" : `${at}: ${String(value).replace("-", "−")}`;
  }

  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const [height, width] = size();
    put([model.get("place")[0], Math.floor(((event.clientY - box.top) / box.height) * height),
      Math.floor(((event.clientX - box.left) / box.width) * width)]);
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    const [c, y, x] = model.get("place");
    put([c, y + by[0], x + by[1]]);
  });
  for (const input of [slider, number]) {
    input.addEventListener("change", () => put([Number(input.value), ...model.get("place").slice(1)]));
  }
  const watched = { "change:values": draw, "change:place": show, "change:channels": draw, "change:title": draw, "change:is_vector": show,
    // Traits that are sent together arrive one by one.
    "change:low": draw, "change:high": draw };
  for (const [name, what] of Object.entries(watched)) model.on(name, what);
  draw();
  return () => { for (const [name, what] of Object.entries(watched)) model.off(name, what); };
}

export default { render };
