// What was spent, added up by tool, rule …: a section of the page Activity.

import { h, replace } from "../dom.js";
import { errorCard, spinner } from "../elements.js";
import { get } from "../api.js";

const KEYS = [["rule", "rule"], ["model", "model"], ["tool", "tool"], ["principal", "principal"], ["tenant", "tenant"]];
const TIMES = [["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"], ["365d", "365 days"]];
let chosen = { by: "rule", since: "30d" }; // the last selection

/** The section: { node, load }. It hides itself from those who may not see costs. */
export function costSection() {
  const out = h("div", {});
  const choice = (name, label, options) => {
    const select = h("select", { class: "input", "aria-label": label, onChange: () => ((chosen[name] = select.value), load()) }, options.map(([value, word]) => h("option", { value }, word)));
    select.value = chosen[name];
    return select;
  };
  const node = h(
    "section",
    { class: "stack", "aria-labelledby": "costs" },
    h("div", { class: "spread" }, h("h2", { id: "costs" }, "Costs"), h("div", { class: "row" }, choice("by", "Add up by", KEYS), choice("since", "In the last", TIMES))),
    out,
  );
  let asked = 0;

  async function load() {
    const now = (asked += 1);
    replace(out, spinner("Adding up"));
    try {
      const found = await get("api/costs", chosen);
      if (now === asked) replace(out, table(found));
    } catch (error) {
      if (now !== asked) return;
      if (error.status === 403) node.remove();
      else replace(out, errorCard(error, { reading: true, retry: load }));
    }
  }

  return { node, load };
}

function table({ by, costs, others, total, unpriced_models: unpriced }) {
  if (costs.length === 0) return h("p", { class: "muted" }, "Nothing was counted in this time.");
  const rows = others ? [...costs, { ...others, name: `${others.names.toLocaleString()} others` }] : costs;
  return h(
    "div",
    { class: "stack" },
    h(
      "table",
      { class: "costs" },
      h("thead", {}, h("tr", {}, [by, "Cost", "Requests", "Calls", "Tokens"].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, rows.map((row) => line(row, row.name || `no ${by}`))),
      h("tfoot", {}, line(total, "Total")),
    ),
    unpriced.length > 0 && h("p", { class: "muted" }, `Not in these amounts, as no price is known: ${unpriced.join(", ")}`),
  );
}

function line({ usd, requests, calls, tokens, unpriced }, name) {
  const amount = usd === null ? "unpriced" : `${unpriced ? "at least " : ""}$${usd}`;
  return h("tr", {}, h("th", { scope: "row", dir: "auto" }, name), [amount, ...[requests, calls, tokens].map((count) => count.toLocaleString())].map((text) => h("td", {}, text)));
}
