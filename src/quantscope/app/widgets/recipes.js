const LARGEST = 4 << 20;

function render({ model, el }) {
  let open = "";
  const guided = element("div", { class: "guided" });
  const lesson = element("div", { class: "lesson" });
  const file = element("input", { type: "file", accept: ".json,application/json", "data-testid": "recipe-file" });
  const refused = element("div", { class: "refused", role: "alert", "data-testid": "recipe-refused" });
  const said = element("ul", { class: "said", "data-testid": "recipe-said" });
  const note = element("textarea", { rows: 2, placeholder: "a note for the recipe: what you found", "aria-label": "note for the recipe", "data-testid": "recipe-note" });
  el.append(element("div", { class: "qs-recipes" },
    element("div", { class: "line" }, element("span", { class: "lead", text: "guided" }), guided),
    lesson,
    element("div", { class: "line" }, element("span", { class: "lead", text: "from a file" }),
      element("label", { class: "file" }, file, "choose a recipe…")),
    refused, said,
    element("label", { class: "line" }, element("span", { class: "lead", text: "note" }), note)));

  function draw() {
    const recipes = model.get("guided");
    guided.replaceChildren(...recipes.map((recipe) => element("button", { type: "button", text: recipe.title,
      "aria-expanded": String(open === recipe.key), class: model.get("loaded") === recipe.key ? "loaded" : "",
      "data-testid": `guided-${recipe.key}`, onclick: () => { open = open === recipe.key ? "" : recipe.key; draw(); } })));
    const chosen = recipes.find((recipe) => recipe.key === open);
    lesson.hidden = !chosen;
    if (chosen) {
      lesson.replaceChildren(
        element("p", { text: chosen.note }),
        element("div", { class: "buttons" },
          element("button", { type: "button", class: "go", text: "load it", "data-testid": "load-guided", onclick: () => model.send({ do: "guided", key: chosen.key }) }),
          element("span", { class: "hint", text: `for ${chosen.model}; it takes the place of the edits in force` })));
    }
    const problem = model.get("refused") ?? {};
    refused.hidden = !problem.text;
    if (problem.text) {
      refused.replaceChildren(element("p", { text: problem.text }), element("div", { class: "buttons" },
        problem.fits ? element("button", { type: "button", text: "apply what fits", "data-testid": "apply-fitting", onclick: () => model.send({ do: "fitting" }) }) : null,
        problem.model ? element("button", { type: "button", text: `open ${problem.model} with it`, "data-testid": "open-its-model", onclick: () => model.send({ do: "open" }) }) : null));
    }
    const lines = model.get("said") ?? [];
    said.hidden = !lines.length;
    said.replaceChildren(...lines.map((text) => element("li", { text })));
    if (note.getRootNode().activeElement !== note) note.value = model.get("note");
  }

  note.addEventListener("input", () => { model.set("note", note.value); model.save_changes(); });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    const text = chosen.size > LARGEST ? "" : await chosen.text();
    model.send({ do: "file", name: chosen.name, text });
    file.value = "";
  });
  const watched = ["guided", "refused", "said", "loaded", "note"].map((name) => `change:${name}`);
  for (const name of watched) model.on(name, draw);
  draw();
  return () => { for (const name of watched) model.off(name, draw); };
}

export default { render };
