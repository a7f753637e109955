// A card of the form that opens: head with title, marks and actions, body built when it is first opened.
//   const card = foldCard({ title, summary, marks, actions, open, body: () => ({ node, update(what) }) });
//   card.node   card.head({ title, summary, marks })   card.update(what)   card.open = true

import { h, icon, replace, uid } from "../dom.js";

/** Return a card. */
export function foldCard({ title, summary = "", marks = [], actions = [], open = false, body }) {
  const id = uid("card");
  const heading = h("span", { class: "fold-title" });
  const told = h("span", { class: "fold-summary" });
  const badges = h("span", { class: "row fold-marks" });
  const inner = h("div", { class: "fold-body", id, hidden: true });
  const toggle = h("button", { type: "button", class: "fold-toggle", "aria-expanded": "false", "aria-controls": id, onClick: () => set(inner.hidden) }, icon("right"), h("span", { class: "fold-text" }, heading, told));
  const node = h("article", { class: "fold-card" }, h("div", { class: "fold-head" }, toggle, badges, h("div", { class: "fold-actions" }, actions)), inner);
  let content = null;

  function set(on) {
    if (on && !content) {
      content = body();
      replace(inner, content.node);
    }
    inner.hidden = !on;
    toggle.setAttribute("aria-expanded", String(on));
    node.classList.toggle("is-open", on);
  }

  const card = {
    node,
    toggle,
    head(now) {
      heading.textContent = now.title;
      told.textContent = now.summary || "";
      replace(badges, now.marks || []);
    },
    update: (what) => content?.update(what),
    get open() {
      return !inner.hidden;
    },
    set open(on) {
      set(on);
    },
  };
  card.head({ title, summary, marks });
  if (open) set(true);
  return card;
}
