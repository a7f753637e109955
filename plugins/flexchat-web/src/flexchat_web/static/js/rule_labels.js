// Labels for rules and their conditions, for the page Explain and for answered turns.
//   ruleName(0, "weather") is Rule 1 “weather”     conditionList({ topic_contains: "weather" }, { failed: ["topic_contains = …: topic is …"] })

import { h, icon } from "./dom.js";

/** Return a rule's display name. */
export function ruleName(index, name) {
  return name ? `Rule ${index + 1} “${name}”` : `Rule ${index + 1}`;
}

/** Return a rule's conditions, each once; verdict: their outcome, null if they were not evaluated. */
export function conditionList(match, verdict) {
  const wanted = Object.entries(match || {});
  const failed = verdict?.failed || [];
  if (!wanted.length && !failed.length) return h("p", { class: "muted" }, "No condition: fits everything.");
  const about = (key) => failed.find((text) => text.startsWith(`${key} = `));
  const others = failed.filter((text) => !wanted.some(([key]) => text.startsWith(`${key} = `)));
  return h(
    "ul",
    { class: "conditions" },
    wanted.map(([key, value]) => {
      const why = about(key);
      return condition(spoken(key, value), why && reason(key, why), !verdict ? "" : why ? "bad" : "ok");
    }),
    others.map((text) => {
      const [, key] = /^(\w+) = /.exec(text) || [];
      const why = key && reason(key, text);
      return why ? condition(text.slice(0, text.length - why.length - 2), why, "bad") : condition("", text, "bad");
    }),
  );
}

function condition(text, why, kind) {
  const mark = { bad: () => icon("close", "not met:"), ok: () => icon("check", "met:") }[kind];
  return h("li", { class: kind }, mark?.(), h("span", {}, text && h("code", { dir: "auto" }, text), why && h("span", { class: "muted block" }, why)));
}

/** Format a condition like the server does, with its operators unchanged. */
function spoken(key, value) {
  return `${key} = ${typeof value === "string" ? `"${value}"` : JSON.stringify(value)}`;
}

/** Return the part of a server's message after the condition: "topic is …". */
function reason(key, sentence) {
  const field = key.replace(/_(contains|regexp)$/, "");
  const at = sentence.indexOf(`: ${field} is `);
  return at < 0 ? sentence : sentence.slice(at + 2);
}
