// The list of conversations: search, open, begin a new one.

import { h, icon, keyed, replace, displayText } from "../dom.js";
import { button, errorCard, when } from "../elements.js";
import { sessions } from "./sessions.js";

/** Return { node, show(current) }. keeps: whether the server stores them. onPick: called with the selected one. */
export function sessionList({ keeps, onPick }) {
  const list = h("ul", { class: "session-items" });
  const note = h("div", { class: "session-note" });
  let timer;
  const search = h("input", {
    class: "input",
    type: "search",
    "aria-label": "Search conversations",
    placeholder: "Search",
    value: sessions.search,
    onInput: () => {
      clearTimeout(timer);
      sessions.search = search.value;
      timer = setTimeout(() => sessions.load(), 200);
    },
  });
  const node = h(
    "div",
    { class: "sessions" },
    h("a", { class: "button", href: "#/chat", onClick: onPick }, icon("plus"), "New conversation"),
    h("div", { class: "search" }, icon("search"), search),
    list,
    note,
  );
  return {
    node,
    show(current) {
      const items = sessions.list;
      keyed(list, items, (one) => one.id, (one) => item(one, current, onPick), (element, one) => update(element, one, current));
      replace(
        note,
        sessions.problem && errorCard(sessions.problem, { retry: () => sessions.load(), reading: true }),
        !items.length && !sessions.problem && h("p", { class: "muted small-text" }, sessions.search ? "Nothing found." : "Conversations appear here."),
        !keeps && items.length > 0 && notKept(),
        sessions.hasMore && button("Show more", { kind: "small", onClick: () => sessions.more() }),
      );
    },
  };
}

/** Explain that conversations are not stored, and how to store them. */
export function notKept() {
  return h("p", { class: "muted small-text not-kept" }, "Conversations end with this page: nothing is kept. A table ", h("code", {}, "[conversations]"), " in the configuration keeps them.");
}

function item(session, current, onPick) {
  const node = h(
    "li",
    {},
    h("a", { class: "session-link", href: `#/chat/${encodeURIComponent(session.id)}`, onClick: onPick }, h("span", { class: "session-title", dir: "auto" }), h("span", { class: "session-time" })),
  );
  update(node, session, current);
  return node;
}

function update(node, session, current) {
  const link = node.firstElementChild;
  link.firstElementChild.textContent = displayText(session.title || "Untitled");
  const isSuspended = session.running?.suspended || session.underWay === "suspended";
  const state = isSuspended ? icon("question", "suspended") : (session.running || session.underWay) && icon("running", "answering");
  replace(link.lastElementChild, state || (session.updated && when(session.updated)));
  if (session === current) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
}
