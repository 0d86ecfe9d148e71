function render({ model, el }) {
  const bar = element("div", { class: "qs-tabs", role: "tablist", "aria-label": "What to look at" });
  // A tab's pane is a cell of the notebook and comes when that has run; until then no other is shown.
  const others = element("style");
  document.head.append(others);
  el.append(bar);

  function hideOthers(current) {
    const mine = `[data-cell-name="pane_${current.toLowerCase().replaceAll(" ", "_")}"]`;
    others.textContent = `.published[data-cell-name^="pane_"]:not(${mine}) { display: none !important; }
      #App:not(:has(${mine} .output)) [data-cell-name="tabs"]::after { display: block; }`;
    turnTo(current);
  }

  function draw() {
    const current = model.get("tab");
    hideOthers(current);
    bar.replaceChildren(...model.get("names").map((name) => element("button", {
      type: "button", role: "tab", text: name, "data-name": name, "data-testid": `tab-${name}`,
      "aria-selected": String(name === current), tabindex: name === current ? 0 : -1,
      onclick: () => choose(name),
    })));
  }

  function choose(name) {
    const hidden = hiddenAbove();
    model.set("tab", name);
    model.save_changes();
    draw();
    if (hidden > 0) scroller().scrollBy(0, -hidden);
  }

  // The bar stays in sight while a pane is scrolled under it; another pane begins at its top.
  function hiddenAbove() {
    const pane = [...document.querySelectorAll('[data-cell-name^="pane_"]')].find((cell) => cell.offsetHeight);
    return pane ? bar.getBoundingClientRect().bottom - pane.getBoundingClientRect().top : 0;
  }

  function scroller() {
    let part = document.querySelector('[data-cell-name="tabs"]');
    while (part && !(part.scrollHeight > part.clientHeight && /auto|scroll/.test(getComputedStyle(part).overflowY))) part = part.parentElement;
    return part ?? document.scrollingElement;
  }

  bar.addEventListener("keydown", (event) => {
    const names = model.get("names");
    const at = names.indexOf(model.get("tab"));
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(names[(to + names.length) % names.length]);
    bar.querySelector('[aria-selected="true"]').focus();
  });
  model.on("change:tab", draw);
  model.on("change:names", draw);
  draw();
  return () => { others.remove(); model.off("change:tab", draw); model.off("change:names", draw); };
}

export default { render };
