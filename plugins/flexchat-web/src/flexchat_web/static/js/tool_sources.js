// Where tools come from: each source, and what of it waits for somebody to accept it.

import { h, icon } from "./dom.js";
import { alert, badge } from "./elements.js";

const STATUS = {
  "not opened": ["not opened yet", "", "It is opened when a rule needs its tools."],
  open: ["open", "ok", "Its tools were read."],
  failed: ["failed", "bad", "It could not be opened or read; the accepted tools are offered."],
};
// What happens to a changed tool until it is accepted: when it is not offered, and when it is.
const KINDS = {
  new: ["New: not offered until it is accepted."],
  changed: ["Changed: it can no longer be called, so it is left out.", "Changed: offered as it was accepted."],
  gone: ["Gone: no longer offered.", "Gone: still offered, because it can still be called."],
};
const MOST_SHOWN = 50;

/** A card for each source; null if there are none. */
export function sourcesView({ sources, trouble, lock }) {
  if (!sources.length) return null;
  return h(
    "section",
    { class: "stack tight", "aria-label": "Sources" },
    trouble && alert("bad", h("p", {}, trouble)),
    sources.map((source) => sourceCard(source, lock)),
  );
}

function sourceCard(source, lock) {
  const [word, kind, meaning] = STATUS[source.status] || [source.status, "", ""];
  const waiting = source.changes.length;
  return h(
    "article",
    { class: "card source-card", "aria-labelledby": `source-${source.name}` },
    h(
      "header",
      { class: "tool-head" },
      h("h2", { id: `source-${source.name}`, class: "mono" }, source.name),
      h(
        "div",
        { class: "row tight" },
        badge(source.type, "accent"),
        badge(word, kind, null, { title: meaning }),
        waiting > 0 && badge(`${waiting} waiting`, "warn"),
      ),
    ),
    h("p", { class: "muted small-text" }, offers(source, lock)),
    source.trouble && alert("bad", h("p", {}, source.trouble)),
    waiting > 0 && changesView(source),
    source.left_out.length > 0 &&
      h(
        "details",
        { class: "lint" },
        h("summary", {}, icon("right"), badge(`${source.left_out.length} left out`, "warn")),
        h("ul", { class: "lint-list" }, source.left_out.map((one) => h("li", {}, h("code", {}, one.tool), ` ${one.reason}`))),
      ),
  );
}

function offers(source, lock) {
  if (!source.accepted && source.trouble) return "None of its tools is known yet.";
  if (!source.accepted) return "Nobody knows its tools yet: the first turn that needs them opens it.";
  const count = source.tools.length;
  return `Offers ${count} ${count === 1 ? "tool" : "tools"}${source.prefix ? `, named ${source.prefix}…` : ""}, as accepted in ${lock}.`;
}

function changesView(source) {
  return h(
    "div",
    { class: "stack tight" },
    h("ul", { class: "source-changes" }, source.changes.slice(0, MOST_SHOWN).map(changeView)),
    source.changes.length > MOST_SHOWN && h("p", { class: "muted small-text" }, `And ${source.changes.length - MOST_SHOWN} more: `, h("code", {}, `flexchat tools diff ${source.name}`)),
    h("p", { class: "small-text" }, "To use them as they are now: ", h("code", {}, `flexchat tools accept ${source.name}`)),
  );
}

function changeView(change) {
  const told = KINDS[change.kind][change.offered ? 1 : 0];
  return h(
    "li",
    {},
    h("div", { class: "row tight" }, h("code", {}, change.tool), badge(change.kind, change.kind === "gone" ? "bad" : "warn"), h("span", { class: "muted" }, told)),
    change.kind === "new" && h("p", {}, change.description),
    change.differences.length > 0 &&
      h(
        "dl",
        { class: "source-differences" },
        change.differences.map((one) =>
          h("div", {}, h("dt", {}, h("code", {}, one.place)), "before" in one && h("dd", { class: "was" }, value("was", one.before)), "now" in one && h("dd", { class: "is" }, value("is now", one.now))),
        ),
      ),
  );
}

function value(word, given) {
  return [h("span", { class: "muted" }, word), " ", typeof given === "string" ? given : h("code", {}, JSON.stringify(given))];
}
