// Markdown, rendered by the server, which escapes raw HTML and lets no image through.
//   node.replaceChildren(await markdown(text))      a text that cannot be rendered comes back as it is

import { h } from "./dom.js";
import { post } from "./api.js";

const known = new Map();

/** Return a node with the rendered text. */
export async function markdown(text) {
  const box = h("div", { class: "markdown" });
  if (!text) return box;
  try {
    if (!known.has(text)) {
      const { html } = await post("api/markdown", { texts: [text] });
      if (known.size > 500) known.clear();
      known.set(text, html[0]);
    }
    box.append(trusted(known.get(text)));
    // Each part by itself is written from the left or from the right.
    for (const part of box.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th, blockquote")) part.dir = "auto";
    // A wide table scrolls by itself, also with the keyboard.
    for (const wide of box.querySelectorAll("table, pre")) {
      const scroller = h("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": wide.tagName === "PRE" ? "Code" : "Table" });
      wide.replaceWith(scroller);
      scroller.append(wide);
    }
  } catch {
    box.classList.add("plain");
    box.textContent = text;
  }
  return box;
}

/** The one place where text becomes HTML; only for what api/markdown returned. */
function trusted(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}
