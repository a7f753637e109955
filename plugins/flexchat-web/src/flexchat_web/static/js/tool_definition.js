// A tool's definition: its effect and its parameters.

import { h } from "./dom.js";
import { badge } from "./elements.js";
import { resolved, typesOf } from "./schema.js";

/** By effect: label, colour and description. */
export const EFFECTS = {
  read: ["reads only", "", "Running it changes nothing."],
  idempotent: ["safe to repeat", "warn", "It changes something; running it twice changes no more than running it once."],
  write: ["changes things", "warn", "Running it changes something, every time."],
};

export function effectOfTool(effect) {
  const [word, kind, meaning] = EFFECTS[effect] || [effect, "", ""];
  return badge(word, kind, null, { title: meaning });
}

/** A list of a JSON Schema's properties. */
export function parametersView(schema) {
  const parts = Object.entries(schema?.properties || {});
  if (!parts.length) return h("p", { class: "muted small-text" }, "Takes no arguments.");
  const must = new Set(schema.required || []);
  return h(
    "dl",
    { class: "parameters" },
    parts.map(([name, given]) => {
      const part = resolved(given, schema);
      const kind = part.enum ? part.enum.map((one) => JSON.stringify(one)).join(" | ") : typesOf(part).join(" or ") || "anything";
      return h(
        "div",
        {},
        h("dt", {}, h("code", {}, name), must.has(name) && h("span", { class: "required-word" }, "required")),
        h("dd", {}, h("span", { class: "muted" }, kind), part.description && h("span", {}, ` ${part.description}`)),
      );
    }),
  );
}
