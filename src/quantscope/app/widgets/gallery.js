function render({ model, el }) {
  const grid = element("div", { class: "qs-gallery" });
  el.append(element("div", { class: "qs-room" }, grid));
  const drawn = new Map();

  // Cards that stay keep their element, so that nothing flickers when one of them changes.
  function draw() {
    const cards = model.get("cards") ?? [];
    const ids = new Set(cards.map((card) => card.id));
    for (const [id, old] of drawn) if (!ids.has(id)) { old.root.remove(); drawn.delete(id); }
    cards.forEach((card, at) => {
      const old = drawn.get(card.id);
      if (old && old.src === card.src && old.error === card.error) {
        if (grid.children[at] !== old.root) grid.insertBefore(old.root, grid.children[at] ?? null);
        return;
      }
      const root = make(card);
      if (old) old.root.replaceWith(root);
      else grid.insertBefore(root, grid.children[at] ?? null);
      drawn.set(card.id, { root, src: card.src, error: card.error });
    });
    mark(model.get("selection"));
  }

  function make(card) {
    const ratio = `aspect-ratio:${card.width}/${card.height}`;
    const inner = card.error
      ? element("p", { class: "error", role: "alert", text: card.error })
      : card.src
        ? element("img", { src: card.src, alt: `${card.title}. ${card.caption}`, style: ratio })
        : element("div", { class: "pending", style: ratio, text: "being drawn…" });
    const stage = element("div", { class: "stage" }, inner);
    const places = model.get("places") ?? {};
    for (const region of card.regions) {
      const selection = places[region.gid];
      if (!selection) continue;
      const share = (value) => `${(100 * value).toFixed(3)}%`;
      stage.append(element("button", {
        type: "button", class: "region", title: region.gid, "aria-label": `Select ${region.gid}`, tabindex: -1,
        "data-gid": region.gid, onclick: () => { select(model, selection); mark(selection); },
        style: `left:${share(region.x0)};width:${share(region.x1 - region.x0)};top:${share(region.y0)};height:${share(region.y1 - region.y0)}`,
      }));
    }
    return element("figure", { class: "card" + (card.wide ? " wide" : ""), "data-id": card.id, "data-testid": `card-${card.title}`, "data-drawn": String(Boolean(card.src)) },
      element("figcaption", { class: "title", text: card.title }), stage,
      card.caption ? element("p", { class: "caption", text: card.caption }) : null);
  }

  function mark(selection) {
    const places = model.get("places") ?? {};
    for (const region of grid.querySelectorAll(".region")) {
      const place = places[region.dataset.gid];
      region.classList.toggle("selected", Boolean(place) &&
        (place.layer ? place.layer === selection?.layer : !selection?.layer && place.tensor === selection?.tensor));
    }
  }

  // Pictures of the tab that was left are not those of the one that is turned to.
  const turn = () => { grid.hidden = model.get("tab") !== currentTab(); };
  const redraw = () => { for (const old of drawn.values()) old.root.remove(); drawn.clear(); draw(); };
  model.on("change:cards", draw);
  model.on("change:places", redraw);
  model.on("change:tab", turn);
  window.addEventListener(TAB, turn);
  const silence = onSelection(model, mark);
  draw();
  turn();
  return () => {
    silence();
    window.removeEventListener(TAB, turn);
    model.off("change:cards", draw);
    model.off("change:places", redraw);
    model.off("change:tab", turn);
  };
}

export default { render };
