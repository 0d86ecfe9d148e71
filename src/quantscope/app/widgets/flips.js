function render({ model, el }) {
  const root = element("div", { class: "qs-flips", "data-testid": "flips" });
  el.append(root);
  const made = new Map();

  // An image that stays keeps its element: nothing flickers while a slider moves.
  function figure(group, image) {
    const key = `${group.key} ${image.index} ${image.before} ${image.after}`;
    const old = made.get(key);
    if (old) return [key, old];
    const words = group.key === "other" ? `${image.label}: ${image.before} → ${image.after}` : `${image.before} → ${image.after}`;
    const what = image.label ? `Image ${image.index}, a ${image.label}` : `Sample ${image.index}`;
    return [key, element("figure", { title: `${what}: ${image.before} before the edits, ${image.after} now`, "data-index": image.index },
      image.src ? element("img", { src: image.src, alt: image.label ? `a ${image.label}` : what, width: 48, height: 48 })
        : element("span", { class: "none", text: image.text }),
      element("figcaption", { text: words }))];
  }

  function draw() {
    const groups = model.get("groups");
    const kept = new Map();
    root.replaceChildren(...groups.map((group) => {
      const figures = group.images.map((image) => {
        const [key, part] = figure(group, image);
        kept.set(key, part);
        return part;
      });
      const more = group.count - group.images.length;
      return element("section", { class: group.key, "data-testid": `flips-${group.key}` },
        element("h3", {}, element("b", { text: String(group.count) }), ` ${group.title}`),
        element("div", { class: "row" }, ...figures,
          more > 0 && figures.length ? element("span", { class: "more", text: `and ${more} more` }) : null));
    }));
    made.clear();
    for (const [key, part] of kept) made.set(key, part);
  }
  const wait = () => root.classList.toggle("busy", model.get("busy"));

  model.on("change:groups", draw);
  model.on("change:busy", wait);
  draw();
  wait();
  return () => { model.off("change:groups", draw); model.off("change:busy", wait); };
}

export default { render };
