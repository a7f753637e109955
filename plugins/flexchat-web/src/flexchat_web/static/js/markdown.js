// Markdown, rendered by the server, which escapes raw HTML and lets no image through.
//   node.replaceChildren(await markdown(text))      a text that cannot be rendered comes back as it is

import { h, shownText } from "./dom.js";
import { post } from "./api.js";

const MOST_CHARACTERS = 50_000; // the server shows what is beyond its limits as it is
const MOST_TEXTS = 100;

const known = new Map(); // text → promise of its HTML
let waiting = []; // [{ text, resolve, reject }], asked for in one go

/** Return a node with the rendered text. */
export async function markdown(text) {
  const box = h("div", { class: "markdown" });
  if (!text) return box;
  try {
    box.append(trusted(await html(text)));
    below(box);
    // Each part by itself is written from the left or from the right.
    for (const part of box.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th, blockquote")) part.dir = "auto";
    // A wide table scrolls by itself, also with the keyboard.
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

/** Put the headings of an answer below those of the page, whose h1 is its title. */
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
  asked.catch(() => known.delete(text)); // it is asked for again
  known.set(text, asked);
  return asked;
}

function ask() {
  const all = waiting;
  waiting = [];
  for (const some of parcels(all)) {
    post("api/markdown", { texts: some.map((one) => one.text) }).then(
      ({ html: rendered }) => some.forEach((one, at) => one.resolve(rendered[at])),
      (error) => some.forEach((one) => one.reject(error)),
    );
  }
}

/** Return texts in as few requests as the server's limits allow. */
export function parcels(all, { characters = MOST_CHARACTERS, texts = MOST_TEXTS } = {}) {
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

/** The one place where text becomes HTML; only for what api/markdown returned. */
function trusted(html) {
  const template = document.createElement("template");
  template.innerHTML = shownText(html);
  return template.content;
}
