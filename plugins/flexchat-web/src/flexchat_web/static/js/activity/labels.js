// Labels for effects and turns: states as badges, a call as one line, links to the conversation and the turn.

import { h, icon } from "../dom.js";
import { badge, when } from "../elements.js";
import { jsonView, codeView } from "../json_view.js";

const EFFECT_STATES = {
  claimed: ["running", "accent", "running"],
  pending: ["waits for a reply", "accent", "question"],
  done: ["happened", "ok", "ok"],
  failed: ["did not happen", "", "close"],
  unknown: ["unknown", "warn", "warning"],
};
const TURN_STATES = {
  accepted: ["accepted", "", "history"],
  suspended: ["suspended", "accent", "question"],
  running: ["running", "accent", "running"],
  done: ["done", "ok", "ok"],
  failed: ["failed", "bad", "failed"],
  cancelled: ["cancelled", "", "stop"],
  interrupted: ["interrupted", "warn", "warning"],
};
const PREVIEW_CHARS = 200;
const MAX_CHARS = 600; // of a text on a card

export const effectBadge = (state) => badge(...(EFFECT_STATES[state] || [state]));
export const turnBadge = (state) => badge(...(TURN_STATES[state] || [state]));
export const effectStates = Object.entries(EFFECT_STATES).map(([state, [word]]) => [state, word]);
export const turnStates = Object.entries(TURN_STATES).map(([state, [word]]) => [state, word]);

/** Return the address of an effect, and of a turn. */
export const effectPlace = (key) => `#/activity/effects/${encodeURIComponent(key)}`;
export const turnPlace = (id) => `#/activity/turns/${encodeURIComponent(id)}`;

/** Return an effect's arguments as data; as text if they were truncated, undefined if they are no longer stored. */
export function argumentsOf(effect) {
  if (!effect.arguments) return undefined;
  try {
    return JSON.parse(effect.arguments);
  } catch {
    return effect.arguments;
  }
}

/** Format arguments on one line: "amount: 5, to: Ann". */
export function argumentsLine(given) {
  const text =
    given && typeof given === "object" && !Array.isArray(given)
      ? Object.entries(given).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ")
      : String(given ?? "");
  return text.slice(0, PREVIEW_CHARS);
}

/** Return a text, cut if it is long. */
export function shortened(text) {
  return text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}…` : text;
}

/** Return data, or a text, as code. */
export function dataView(value, label) {
  return typeof value === "string" ? codeView(value, { label, lines: 8 }) : jsonView(value, { label, lines: 8 });
}

/** Return a list of facts; those without a value are left out. */
export function factList(facts) {
  const known = facts.filter(([, value]) => value);
  return h("dl", { class: "facts-list" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Return links to an effect's conversation and turn. */
export function originLinks({ conversation, turn, place }) {
  if (!turn) return `by hand${place.startsWith("key:") ? `, with the key “${place.slice(4, 84)}”` : ""}`;
  if (!conversation) return "in a turn that is not kept";
  return h("span", { class: "row" }, h("a", { href: `#/chat/${encodeURIComponent(conversation)}` }, icon("chat"), "the conversation"), h("a", { href: turnPlace(turn) }, icon("list"), "the steps of its turn"));
}

/** Return the time between two times as ISO text, in milliseconds; null if one is missing. */
export function between(began, ended) {
  const took = Date.parse(ended) - Date.parse(began);
  return Number.isFinite(took) ? Math.max(0, took) : null;
}

/** Return a time with its date and seconds. */
export function exactly(time) {
  const node = when(time);
  if (node.title) node.textContent = node.title;
  return node;
}
