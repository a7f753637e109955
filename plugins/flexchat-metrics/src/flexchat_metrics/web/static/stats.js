// Statistics: what turns, rules, models and tools did, and whether objectives are met.

import { h, replace } from "../../js/dom.js";
import { badge, button, counted, emptyState, errorCard, money, ms, pageHead, spinner } from "../../js/elements.js";
import { get } from "../../js/api.js";

export const title = "Statistics";

const PERIODS = [["24h", "24 hours"], ["7d", "7 days"], ["28d", "28 days"], ["365d", "a year"]];
const STATES = { met: ["met", "ok", "ok"], violated: ["violated", "bad", "failed"], "insufficient data": ["insufficient data", "", "question"] };
const ERRORS = { not_found: "no such tool", invalid_arguments: "invalid arguments", timeout: "timed out", refused: "refused", tool_error: "failed" };
const MAX_ROWS = 20;

const percent = (share) => (share === null ? "–" : `${(share * 100).toLocaleString("en", { maximumFractionDigits: 1 })} %`);
const number = (value) => value.toLocaleString("en");
const name = ["", (row) => h("span", { class: "anywhere" }, row.name)];
const share = (label) => [label, ({ success: { rate, low, high } }) => h("span", { title: `95 % interval: ${percent(low)} to ${percent(high)}` }, percent(rate)), true];
const times = ["p50", "p95", "p99"].map((key) => [key, (row) => ms(row.ms[key]) || "–", true]);
const spent = [
  ["Tokens", ({ tokens }) => h("span", { title: `${counted(tokens.input, "token")} read, ${number(tokens.output)} written` }, number(tokens.input + tokens.output)), true],
  ["Cost", ({ cost }) => (cost ? money(cost) : "–"), true],
];
const turnColumns = [name, ["Turns", (row) => number(row.count), true], share("Done"), ...times, ...spent, ["Answers", (row) => row.depth.mean.toFixed(1), true], ["At limit", (row) => number(row.at_limit), true]];

const TABLES = [
  ["turns", "Turns", turnColumns],
  ["rules", "Rules", turnColumns],
  ["models", "Models", [name, ["Requests", (row) => number(row.count), true], share("Answered"), ...times, ...spent, ["Calls", (row) => number(row.calls), true], ["Right tool", (row) => percent(row.selection_accuracy), true]]],
  ["tools", "Tools", [name, ["Calls", (row) => number(row.count), true], share("Succeeded"), ...times, ["Errors", errorsOf], ["Common arguments", argumentsOf]]],
];

let since = "7d"; // the last selection

export async function mount(root) {
  const out = h("div", { class: "stack" });
  const periods = h("select", { class: "input stats-period", "aria-label": "Period", onChange: () => ((since = periods.value), load()) }, PERIODS.map(([value, text]) => h("option", { value, selected: value === since }, `Last ${text}`)));
  root.append(pageHead(title, "What turns, rules, models and tools did.", periods), out);
  let asked = 0;

  async function load() {
    const now = (asked += 1);
    replace(out, spinner("Adding up"));
    try {
      const data = await get("api/stats", { since });
      if (now === asked) replace(out, objectives(data.objectives), ...(data.turns.length ? TABLES.map((each) => section(data, each)) : [nothing()]));
    } catch (error) {
      if (now === asked) replace(out, errorCard(error, { reading: true, retry: load }));
    }
  }

  await load();
}

function nothing() {
  return emptyState("No turn has ended in this time", h("p", {}, "Each message in a kept conversation is counted once its turn has ended."));
}

function section(data, [key, label, columns]) {
  const head = h("h2", { id: `stats-${key}` }, label);
  const body = h("div", {});
  const show = (rows) => replace(body, table(label, columns, rows));
  show(data[key].slice(0, MAX_ROWS));
  const more = data[key].length > MAX_ROWS && button(`Show all ${number(data[key].length)}`, { kind: "quiet", onClick: () => (show(data[key]), more.remove()) });
  return data[key].length > 0 && h("section", { class: "stack", "aria-labelledby": head.id }, head, body, more);
}

function table(label, columns, rows) {
  const cell = (row) => ([, value, isNumber], index) => h(index ? "td" : "th", index ? { class: isNumber ? "stats-number" : "" } : { scope: "row" }, value(row));
  return h(
    "div",
    { class: "stats-scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      { class: "stats" },
      h("thead", {}, h("tr", {}, columns.map(([text, , isNumber], index) => h("th", { scope: "col", class: isNumber ? "stats-number" : "" }, index ? text : h("span", { class: "visually-hidden" }, "Name"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(cell(row))))),
    ),
  );
}

function objectives(verdicts) {
  if (!verdicts.length) return null;
  const head = h("h2", { id: "stats-objectives" }, "Objectives");
  return h("section", { class: "stack", "aria-labelledby": head.id }, head, h("ul", { class: "stats-objectives" }, verdicts.map(objective)));
}

function objective(verdict) {
  const { target, line, limit_ms: limit, good, tried, budget_left: left, causes, window: its } = verdict;
  const required = `${percent(line)}${limit === null ? "" : ` within ${ms(limit)}`} in ${its}`;
  const spent = causes.length > 0 && `spent by ${causes.map(({ cause, count }) => `${ERRORS[cause] || cause} (${number(count)})`).join(", ")}`;
  const facts = [required, tried ? `${number(good)} of ${number(tried)} so far` : "none so far", left !== null && `${percent(left)} of the error budget left`, spent];
  return h("li", { class: "card" }, h("div", { class: "row" }, badge(...STATES[verdict.state]), h("code", { class: "anywhere" }, target)), h("p", { class: "muted small-text" }, facts.filter(Boolean).join(" · ")));
}

function errorsOf({ errors }) {
  return Object.entries(errors).map(([kind, count]) => `${ERRORS[kind] || kind} ${number(count)}`).join(", ") || "–";
}

function argumentsOf({ arguments: common }) {
  return h("span", { class: "anywhere" }, common.slice(0, 5).map(({ text, calls }) => `${text} (${number(calls)})`).join(", ") || "–");
}
