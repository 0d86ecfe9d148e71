// One selection for all widgets of the page: a click is shown everywhere at once, before Python
// has answered, through an event of the window; the trait is what Python hears of and what lasts.
const SELECT = "quantscope:select";

function same(a, b) {
  return (a?.layer ?? "") === (b?.layer ?? "") && (a?.tensor ?? "") === (b?.tensor ?? "");
}

function select(model, selection) {
  if (same(model.get("selection"), selection)) return;
  model.set("selection", selection);
  model.save_changes();
  window.dispatchEvent(new CustomEvent(SELECT, { detail: selection }));
}

function onSelection(model, show) {
  const fromWindow = (event) => show(event.detail);
  const fromModel = () => show(model.get("selection"));
  window.addEventListener(SELECT, fromWindow);
  model.on("change:selection", fromModel);
  return () => {
    window.removeEventListener(SELECT, fromWindow);
    model.off("change:selection", fromModel);
  };
}

// The tab that is turned to, before Python has answered.
const TAB = "quantscope:tab";

function turnTo(tab) {
  document.documentElement.dataset.qsTab = tab;
  window.dispatchEvent(new CustomEvent(TAB));
}

function currentTab() {
  return document.documentElement.dataset.qsTab;
}

function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "rect", "text", "tspan", "line", "circle", "title"].includes(tag);
  const made = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function clipped(text, most) {
  if (text.length <= most) return text;
  const tail = most >> 1;
  return `${text.slice(0, most - tail - 1)}…${text.slice(text.length - tail)}`;
}
