// Markdown, rendered by the server, which escapes raw HTML and lets no image through.
//   node.replaceChildren(await markdown(text))      a text that cannot be rendered is shown unchanged

import { h, displayText } from "./dom.js";
import { post } from "./api.js";

const MAX_CHARACTERS = 50_000; // the server does not render texts beyond its limits
const MAX_TEXTS = 100;

const known = new Map(); // text → promise of its HTML
let waiting = []; // [{ text, resolve, reject }], sent in one request

/** Return a node with the rendered text. */
export async function markdown(text) {
  const box = h("div", { class: "markdown" });
  if (!text) return box;
  try {
    box.append(trusted(await html(text)));
    below(box);
    // Each part has its own writing direction.
    for (const part of box.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th, blockquote")) part.dir = "auto";
    // A wide table has its own scroll container, reachable by keyboard.
    for (const wide of box.querySelectorAll("table, pre")) {
      const scroller = h("div", { class: "scroll-x", tabindex: "0", role: "group", "aria-label": wide.tagName === "PRE" ? "Code" : "Table" });
      wide.replaceWith(scroller);
      scroller.append(wide);
    }
  } catch {
    box.classList.add("plain");
    box.textContent = text;
  }
  return box;
}

/** Lower the level of an answer's headings: the page's title is its only h1. */
function below(box) {
  for (const heading of box.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const level = Number(heading.tagName[1]);
    const lower = h(`h${Math.min(6, level + 2)}`, { class: `heading-${level}` });
    lower.append(...heading.childNodes);
    heading.replaceWith(lower);
  }
}

function html(text) {
  if (known.has(text)) return known.get(text);
  if (known.size > 500) known.clear();
  const asked = new Promise((resolve, reject) => {
    if (!waiting.length) queueMicrotask(ask);
    waiting.push({ text, resolve, reject });
  });
  asked.catch(() => known.delete(text)); // the next call requests it again
  known.set(text, asked);
  return asked;
}

function ask() {
  const all = waiting;
  waiting = [];
  for (const some of requestBatches(all)) {
    post("api/markdown", { texts: some.map((one) => one.text) }).then(
      ({ html: rendered }) => some.forEach((one, at) => one.resolve(rendered[at])),
      (error) => some.forEach((one) => one.reject(error)),
    );
  }
}

/** Group texts into as few requests as the server's limits allow. */
export function requestBatches(all, { characters = MAX_CHARACTERS, texts = MAX_TEXTS } = {}) {
  const made = [];
  let left = 0;
  for (const one of all) {
    if (!made.length || one.text.length > left || made.at(-1).length >= texts) {
      made.push([]);
      left = characters;
    }
    made.at(-1).push(one);
    left -= one.text.length;
  }
  return made;
}

/** The only function that parses HTML; its input is always a result of api/markdown. */
function trusted(html) {
  const template = document.createElement("template");
  template.innerHTML = displayText(html);
  return template.content;
}
