// Small components shared by all pages. Colours ("kind"): "ok", "warn", "bad", "accent", or none.
//   pageHead("Tools", "What models may call.", button(…))   the page's h1 and its actions
//   button("Run", { icon: "play", kind: "primary" | "quiet" | "danger", onClick, … })   iconButton("trash", "Delete", onClick)
//   badge("validated", "ok", "check")   spinner("Loading")   emptyState("No cases yet", …nodes)
//   errorCard(error, { retry, reading })   an ApiError (or any error) with its message, each problem, and a button
//   alert(kind, …children)   busy(button, promise)   copyButton(text)
//   ms(1234.5) "1.2 s"   counted(2, "tool") "2 tools"   when("2026-…") "5 min ago"   money(turn.cost) "at least $0.012"

import { reachable } from "./attention.js";
import { announce, h, icon } from "./dom.js";
import { signInForm } from "./sign_in.js";

/** The head of a page. */
export function pageHead(title, lead, ...actions) {
  return h(
    "header",
    { class: "page-head" },
    h("div", {}, h("h1", {}, title), lead && h("p", { class: "lead" }, lead)),
    actions.length > 0 && h("div", { class: "row" }, actions),
  );
}

/** A button with a label. */
export function button(label, { icon: picture, kind = "", ...props } = {}) {
  return h("button", { type: "button", ...props, class: ["button", kind, props.class] }, picture && icon(picture), h("span", {}, label));
}

/** A button with an icon only; the label is its accessible name and its tooltip. */
export function iconButton(picture, label, onClick, props = {}) {
  return h("button", { type: "button", "aria-label": label, title: label, onClick, ...props, class: ["icon-button", props.class] }, icon(picture));
}

/** A label in a coloured pill. */
export function badge(text, kind = "", picture = null, props = {}) {
  return h("span", { ...props, class: ["badge", kind, props.class] }, picture && icon(picture), text);
}

/** A spinner with a label. */
export function spinner(label = "Loading") {
  return h("p", { class: "spinner" }, icon("running"), h("span", {}, `${label}…`));
}

/** A placeholder for an empty list. */
export function emptyState(title, ...children) {
  return h("section", { class: "empty" }, h("h2", {}, title), children);
}

/** A framed message. kind "bad" is announced at once. */
export function alert(kind, ...children) {
  const picture = { bad: "failed", warn: "warning", ok: "ok" }[kind] || "info";
  return h("div", { class: ["alert", kind], role: kind === "bad" ? "alert" : "note" }, icon(picture), h("div", { class: "alert-text" }, children));
}

/**
 * What went wrong, and a button to try again. reading: trying again changes nothing, so it is done by itself once a server
 * that could not be reached can be.
 */
export function errorCard(error, { retry, title, reading = false } = {}) {
  if (error.status === 401) return signInForm();
  const problems = (error.problems || []).slice(0, 20);
  const waits = reading && error.status === 0;
  const card = alert(
    "bad",
    h("p", {}, h("strong", {}, title || error.problem?.title || "Something went wrong")),
    h("p", {}, error.message || String(error), waits && " The page tries again by itself."),
    problems.length > 0 && h("ul", { class: "problems" }, problems.map((one) => h("li", {}, one.path && h("code", {}, one.path), one.path && " ", one.text))),
    retry && h("p", {}, button("Try again", { icon: "retry", onClick: retry })),
  );
  if (waits) reachable().then(() => card.isConnected && retry());
  return card;
}

/** Disable a button, with a spinner in it, until a promise is settled. Return the promise. */
export async function busy(node, promise) {
  node.disabled = true;
  node.setAttribute("aria-busy", "true");
  try {
    return await promise;
  } finally {
    node.disabled = false;
    node.removeAttribute("aria-busy");
  }
}

/** A button that copies a text (or what a function returns). */
export function copyButton(text, label = "Copy") {
  const node = iconButton("copy", label, async () => {
    const wanted = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(wanted);
    } catch {
      // Fallback without https or permission.
      const area = h("textarea", { value: wanted, class: "visually-hidden" });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    node.replaceChildren(icon("check"));
    announce("Copied");
    setTimeout(() => node.replaceChildren(icon("copy")), 1500);
  });
  return node;
}

/** A number with its noun: "1 tool", "2 tools", "1,200 tokens". */
export function counted(number, noun, many = `${noun}s`) {
  return `${number.toLocaleString()} ${number === 1 ? noun : many}`;
}

/** Format a cost like the command line: "$0.012", "at least $1.20", "not priced". An unknown cost is never 0. */
export function money({ amount, unpriced }) {
  if (amount === null) return "not priced";
  const dollars = Number(amount);
  const digits = dollars === 0 ? { maximumFractionDigits: 0 } : dollars >= 0.1 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumSignificantDigits: 2 };
  return `${unpriced.length ? "at least " : ""}$${dollars.toLocaleString("en", digits)}`;
}

/** A cost in a line of facts; its tooltip lists the unpriced parts. None for data that an earlier version stored. */
export function costNode(cost) {
  if (!cost) return null;
  return h("span", { class: "money", title: cost.unpriced.length ? `Cost; not in it: ${cost.unpriced.join("; ")}` : "Cost" }, money(cost));
}

/** Format milliseconds. */
export function ms(value) {
  if (value === null || value === undefined) return "";
  if (value < 1) return "<1 ms";
  if (value < 1000) return `${Math.round(value)} ms`;
  return value < 60000 ? `${(value / 1000).toFixed(1)} s` : `${Math.floor(value / 60000)} min ${Math.round((value % 60000) / 1000)} s`;
}

/** A relative time of an ISO text or of seconds since 1970, with the exact one as its tooltip. */
export function when(time) {
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  if (Number.isNaN(date.getTime())) return h("time", {}, String(time ?? ""));
  const seconds = (Date.now() - date.getTime()) / 1000;
  const text =
    seconds < 45 ? "just now"
    : seconds < 3600 ? `${Math.max(1, Math.round(seconds / 60))} min ago`
    : seconds < 86400 ? `${Math.round(seconds / 3600)} h ago`
    : date.toLocaleDateString(undefined, { day: "numeric", month: "short", year: seconds > 3e7 ? "numeric" : undefined });
  return h("time", { datetime: date.toISOString(), title: date.toLocaleString() }, text);
}
