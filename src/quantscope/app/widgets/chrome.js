const LANDMARKS = {
  head_title: ["banner", "The model"],
  head_open: ["region", "Open a model"],
  head_numbers: ["region", "Scores"],
  head_job: ["region", "What is being measured"],
  head_edits: ["region", "Edits in force"],
  left: ["region", "The network"],
  tabs: ["navigation", "Tabs"],
  take: ["region", "Copy and save"],
  pictures: ["region", "Figures"],
};
const KEYS = [
  ["Tab, Shift+Tab", "from one control to the next, and back"],
  ["← →, Home, End", "along the tabs, and between the buttons of a choice"],
  ["↑ ↓ ← →, Enter", "along the network, and select the layer"],
  ["+ −", "zoom the network"],
  ["↑ ↓, Home, End", "along the rows of a table"],
  ["← →, Page Up, Page Down", "a slider or a handle by a fine or a coarse step"],
  ["Enter", "take a typed number"],
  ["Ctrl+Z, Ctrl+Shift+Z", "undo and redo edits"],
  ["Esc", "close what is open over the page"],
  ["?", "this list"],
];
const OPENED = ["model", "float", "data"];
const STEPS = [...OPENED, "tab", "layer", "tensor", "run", "colour"];

function deep(root, wanted) {
  const found = root.querySelector(wanted);
  if (found) return found;
  for (const part of root.querySelectorAll("*")) {
    const inside = part.shadowRoot && deep(part.shadowRoot, wanted);
    if (inside) return inside;
  }
  return null;
}

function render({ model, el }) {
  el.style.display = "none";
  const tip = element("div", { class: "qs-tip", role: "tooltip", id: "qs-tip", hidden: true });
  document.body.append(tip);
  let target = null;
  let leaving = 0;
  const keyboard = element("dialog", { class: "qs-keyboard", "aria-labelledby": "qs-keyboard-title", "data-testid": "keyboard" },
    element("h2", { id: "qs-keyboard-title", text: "Keys" }),
    element("dl", {}, ...KEYS.flatMap(([keys, what]) => [element("dt", { text: keys }), element("dd", { text: what })])),
    element("button", { type: "button", class: "qs-offer", text: "close", onclick: () => keyboard.close() }));
  document.body.append(keyboard);

  // Marimo's cells are plain boxes; what they are is said here, whenever one comes or another tab is
  // turned to.
  function nameCells() {
    const current = `pane_${(currentTab() ?? "").toLowerCase().replaceAll(" ", "_")}`;
    for (const cell of document.querySelectorAll("[data-cell-name]")) {
      const name = cell.dataset.cellName;
      const [role, label] = name === current ? ["main", currentTab()] : LANDMARKS[name] ?? [null, null];
      if (role && cell.querySelector(".output")) {
        if (cell.getAttribute("role") !== role) cell.setAttribute("role", role);
        if (cell.getAttribute("aria-label") !== label) cell.setAttribute("aria-label", label);
      } else if (name.startsWith("pane_")) {
        cell.removeAttribute("role");
        cell.removeAttribute("aria-label");
      }
    }
  }
  let naming = 0;
  const nameSoon = () => { naming ||= setTimeout(() => { naming = 0; nameCells(); }, 80); };
  const cells = new MutationObserver(nameSoon);
  cells.observe(document.body, { childList: true, subtree: true });
  window.addEventListener(TAB, nameSoon);
  nameCells();

  const worded = (event) => event.composedPath().find((part) => part.dataset?.word);

  function show(part) {
    const word = model.get("words")[part.dataset.word];
    if (!word) return;
    clearTimeout(leaving);
    target = part;
    const more = element("a", { href: "#", text: "more", "data-testid": "more" });
    more.addEventListener("click", (event) => {
      event.preventDefault();
      read(word.page);
      hide();
    });
    tip.replaceChildren(element("b", { text: word.name }), ` ${word.text} `, ...(word.page ? [more] : []));
    tip.hidden = false;
    const box = part.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, window.innerWidth - tip.offsetWidth - 8));
    const below = box.bottom + 6 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`;
  }

  function read(page) {
    model.set("topic", { page, n: (model.get("topic")?.n ?? 0) + 1 });
    model.save_changes();
    const heading = page.split("#")[1];
    const until = Date.now() + 5000;
    const seek = () => {
      const found = document.querySelector(heading ? `.qs-help [id="${heading}"]` : ".qs-pages");
      const current = document.querySelector(".qs-pages [aria-current]")?.getAttribute("href");
      if (found && current === page.split("#")[0]) found.scrollIntoView({ block: "start" });
      else if (Date.now() < until) setTimeout(seek, 60);
    };
    seek();
  }

  function hide() { tip.hidden = true; target = null; }

  const over = (event) => {
    const part = worded(event);
    if (part) { if (part !== target) show(part); else clearTimeout(leaving); }
    else if (event.composedPath().includes(tip)) clearTimeout(leaving);
    else if (target) { clearTimeout(leaving); leaving = setTimeout(hide, 220); }
  };
  const focus = (event) => { const part = worded(event); if (part) show(part); };
  const key = (event) => {
    if (event.key === "Escape") hide();
    if (event.key === "?" && !event.composedPath()[0].matches?.("input, textarea, select")) { keyboard.showModal(); return; }
    const typing = event.composedPath()[0].matches?.('input:not([type="range"], [type="checkbox"]), textarea, select');
    if (typing || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    const wanted = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[event.key.toLowerCase()];
    if (!wanted) return;
    event.preventDefault();
    model.send({ do: wanted });
  };
  const click = (event) => {
    const part = event.composedPath().find((one) => one.dataset?.select);
    if (part) select(model, JSON.parse(part.dataset.select));
    const asking = event.composedPath().find((one) => one.dataset?.ask);
    if (asking) model.send(JSON.parse(asking.dataset.ask));
    const link = event.composedPath().find((one) => one.tagName === "A");
    const href = link?.getAttribute("href") ?? "";
    if (event.target.classList?.contains("qs-skip")) deep(document, '[role="tab"][aria-selected="true"]')?.focus();
    const inPage = href.startsWith("#") && link.closest(".qs-help");
    if (/^[\w.-]+\.md(#|$)/.test(href) || inPage) {
      event.preventDefault();
      const current = document.querySelector(".qs-pages [aria-current]")?.getAttribute("href") ?? "";
      read(inPage ? current + href : href);
    }
  };
  document.addEventListener("click", click);
  document.addEventListener("pointerover", over);
  document.addEventListener("focusin", focus);
  document.addEventListener("keydown", key);
  window.addEventListener("scroll", hide, { passive: true });

  const dark = () => document.body.classList.contains("dark")
    || document.documentElement.classList.contains("dark")
    || document.body.dataset.theme === "dark";
  const report = () => {
    const theme = dark() ? "dark" : "light";
    document.documentElement.dataset.qsTheme = theme;
    if (model.get("theme") !== theme) { model.set("theme", theme); model.save_changes(); }
  };
  const watch = new MutationObserver(report);
  for (const part of [document.body, document.documentElement]) {
    watch.observe(part, { attributes: true, attributeFilter: ["class", "data-theme"] });
  }
  report();

  // What is looked at is a step that the browser goes back from. Edits are not: a slider changes
  // them at every move, and they have an undo of their own. Browsers take only so many changes, so
  // all but another model waits for what comes next.
  let waiting = 0;
  let going = 0;
  const told = () => Object.fromEntries(new URL(window.location.href).searchParams);
  const isOther = (to) => OPENED.some((key) => (to[key] ?? "") !== (model.get("address")[key] ?? ""));
  const locate = () => { clearTimeout(waiting); waiting = setTimeout(() => write(true), isOther(told()) ? 0 : 150); };
  const write = (mayStep) => {
    if (going !== model.get("gone")) return;
    const url = new URL(window.location.href);
    let steps = false;
    for (const [key, value] of Object.entries(model.get("address"))) {
      if ((url.searchParams.get(key) ?? "") === value) continue;
      if (value) url.searchParams.set(key, value); else url.searchParams.delete(key);
      steps ||= STEPS.includes(key);
    }
    if (url.href === window.location.href) return;
    if (mayStep && steps) window.history.pushState(window.history.state, "", url);
    else window.history.replaceState(window.history.state, "", url);
  };
  const arrive = () => write(false);
  const go = () => {
    const to = told();
    if (isOther(to)) { window.location.reload(); return; }
    clearTimeout(waiting);
    going = Math.max(going, model.get("gone")) + 1;
    model.send({ do: "go", to, n: going });
  };
  going = model.get("gone");
  model.on("change:address", locate);
  model.on("change:gone", arrive);
  window.addEventListener("popstate", go);
  write(false);

  const call = () => { if (model.get("title")) document.title = `${model.get("title")} · quantscope`; };
  model.on("change:title", call);
  call();
  return () => {
    watch.disconnect();
    clearTimeout(waiting);
    model.off("change:address", locate);
    model.off("change:gone", arrive);
    model.off("change:title", call);
    window.removeEventListener("popstate", go);
    tip.remove();
    keyboard.remove();
    cells.disconnect();
    clearTimeout(naming);
    window.removeEventListener(TAB, nameSoon);
    document.removeEventListener("click", click);
    document.removeEventListener("pointerover", over);
    document.removeEventListener("focusin", focus);
    document.removeEventListener("keydown", key);
    window.removeEventListener("scroll", hide);
  };
}

export default { render };
