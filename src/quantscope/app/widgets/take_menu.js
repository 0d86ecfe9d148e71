// Tables are taken from the page, as they are sorted and filtered; commands and figures from Python.
function tables(root) {
  const found = [];
  for (const part of root.querySelectorAll("*")) {
    if (part.tagName === "TABLE" && part.rows.length) found.push(part);
    if (part.shadowRoot) found.push(...tables(part.shadowRoot));
  }
  return found;
}

function nameOf(table) {
  for (let part = table; part; part = part.parentElement ?? part.getRootNode().host) {
    const label = part.getAttribute?.("aria-label");
    if (label && label !== "Table" && part !== table.closest('[role="main"]')) return label.split(";")[0];
    const own = part.querySelector?.(":scope > :is(h2, h3, summary), :scope > .qs-heading h2");
    if (own) return own.textContent.trim();
  }
  return "Table";
}

function csv(table) {
  const line = (row) => [...row.cells].map((cell) => {
    const text = cell.textContent.trim().replace(/\s+/g, " ").replaceAll("−", "-").replace(/ ?[▴▾]$/, "");
    // A spreadsheet would run what begins like a formula.
    const plain = /^[=+@-]/.test(text) && !/^[+-][\d.]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  }).join(",");
  return [...table.rows].map(line).join("\r\n") + "\r\n";
}

function download(name, content, mime) {
  const url = URL.createObjectURL(new Blob([content], { type: mime }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages that are not local have no clipboard but this one.
    const field = element("textarea", { style: "position:fixed;opacity:0" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

const slug = (text) => text.replace(/[^\p{L}\d.]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").toLowerCase().slice(0, 80) || "table";

function render({ model, el }) {
  let asked = 0;
  const list = element("div", { class: "list" });
  const said = element("p", { class: "said", role: "status" });
  const menu = element("details", { class: "qs-take", "data-testid": "take" },
    element("summary", { text: "Copy and save" }), element("div", { class: "pop", role: "group", "aria-label": "Copy and save" }, list, said));
  el.append(menu);

  const button = (text, about, act) => element("button", { type: "button", text, "aria-label": `${text}: ${about}`, onclick: act });
  const row = (what, ...buttons) => element("div", { class: "row" }, element("span", { class: "what", text: what, title: what }), ...buttons);
  const part = (title, rows) => rows.length ? [element("h3", { text: title }), ...rows] : [];

  function draw() {
    if (!menu.open) return;
    const listed = model.get("listed") ?? {};
    if (listed.n !== asked) { list.replaceChildren(element("p", { class: "wait", text: "…" })); return; }
    const take = (text, how) => async () => { await copy(text); said.textContent = `Copied: ${how}`; };
    const numbers = (listed.items ?? []).map((one) => row(one.what,
      one.command ? button("command", one.what, take(one.command, `the command for ${one.what}`)) : element("i", { class: "none", text: "no command", title: one.why }),
      button("Python", one.what, take(one.python, `Python for ${one.what}`))));
    const cells = [...document.querySelectorAll('[data-cell-name^="pane_"], [data-cell-name="left"]')].reverse();
    const seen = new Map();
    const saves = cells.flatMap((cell) => tables(cell)).map((table) => {
      const name = nameOf(table), count = (seen.get(name) ?? 0) + 1;
      seen.set(name, count);
      const told = count > 1 ? `${name} (${count})` : name;
      return row(told, button("CSV", told, () => download(`${listed.name}-${slug(told)}.csv`, csv(table), "text/csv")));
    });
    const figures = figuresShown().map(([id, title]) => row(title, ...["SVG", "PNG"].map((kind) =>
      button(kind, title, () => { said.textContent = "Being drawn…"; model.send({ do: "figure", id, format: kind.toLowerCase(), n: Date.now() }); }))));
    list.replaceChildren(...part("What gives these numbers", numbers), ...part("Tables, as they are shown", saves), ...part("Figures", figures));
  }

  function figuresShown() {
    const gallery = [];
    const seek = (root) => {
      for (const one of root.querySelectorAll("*")) {
        if (one.classList.contains("card") && one.dataset.drawn === "true") gallery.push([one.dataset.id, one.querySelector(".title").textContent]);
        if (one.shadowRoot) seek(one.shadowRoot);
      }
    };
    for (const cell of document.querySelectorAll('[data-cell-name="pictures"]')) seek(cell);
    return gallery;
  }

  function save() {
    const saved = model.get("saved") ?? {};
    said.textContent = saved.error ?? `Saved: ${saved.name}`;
    if (saved.error) return;
    download(saved.name, Uint8Array.from(atob(saved.content), (one) => one.charCodeAt(0)), saved.mime);
  }

  const shut = () => { menu.open = false; };
  const outside = (event) => { if (menu.open && !event.composedPath().includes(menu)) shut(); };
  menu.addEventListener("toggle", () => {
    said.textContent = "";
    if (!menu.open) return;
    asked = Date.now();
    model.send({ do: "list", n: asked });
    draw();
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) { shut(); menu.querySelector("summary").focus(); }
  });
  document.addEventListener("pointerdown", outside);
  window.addEventListener(TAB, shut);
  model.on("change:listed", draw);
  model.on("change:saved", save);
  return () => {
    document.removeEventListener("pointerdown", outside);
    window.removeEventListener(TAB, shut);
    model.off("change:listed", draw);
    model.off("change:saved", save);
  };
}

export default { render };
