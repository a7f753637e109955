// A JSON viewer: coloured text with a copy button; long values are folded.
//   jsonView({ city: "Paris" })      jsonView(value, { lines: 12, label: "Result" })      codeView(text)

import { h } from "./dom.js";
import { button, copyButton } from "./elements.js";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

/** Return data as indented JSON. */
export function jsonView(value, { lines = 16, label = "JSON" } = {}) {
  const text = typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value, null, 2) ?? "nothing";
  return cut(text, lines, label, coloured);
}

/** Return a text as code, without colours. */
export function codeView(text, { lines = 16, label = "Text" } = {}) {
  return cut(text, lines, label, (part) => [part]);
}

function cut(text, lines, label, paint) {
  const all = text.split("\n");
  const short = all.slice(0, lines).join("\n").slice(0, lines * 200);
  const pre = h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": label }, paint(short));
  const more =
    short.length < text.length &&
    button(all.length > lines ? `Show all ${all.length} lines` : "Show all", {
      kind: "quiet small",
      onClick: () => (pre.replaceChildren(...paint(text)), more.remove()),
    });
  return h("div", { class: "code-box" }, pre, copyButton(text, `Copy ${label}`), more);
}

function coloured(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    nodes.push(text.slice(end, match.index));
    const [whole, quoted, colon, word] = match;
    const kind = quoted ? (colon ? "key" : "string") : word ? "word" : "number";
    nodes.push(h("span", { class: `json-${kind}` }, colon ? quoted : whole), colon || "");
    end = match.index + whole.length;
  }
  nodes.push(text.slice(end));
  return nodes;
}
