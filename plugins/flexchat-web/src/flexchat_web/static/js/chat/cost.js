// The cost of a conversation, in total and by rule.

import { h } from "../dom.js";
import { button, money } from "../elements.js";
import { openDialog } from "../dialog.js";

/** Open the dialog for a session that is stored on the server. */
export function costDialog({ cost, rules }) {
  const missing = [...new Set(rules.flatMap((one) => one.cost.unpriced))];
  const dialog = openDialog({
    title: "What this conversation cost",
    content: [
      h("p", {}, h("strong", {}, money(cost)), " for all the models it asked. Tools, and the embeddings of documents, are not in it."),
      h(
        "table",
        { class: "costs" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Answered by"), h("th", { scope: "col" }, "Turns"), h("th", { scope: "col" }, "Cost"))),
        h("tbody", {}, rules.map((one) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, one.rule), h("td", {}, one.turns.toLocaleString()), h("td", {}, money(one.cost))))),
      ),
      missing.length > 0 && h("div", {}, h("p", {}, "Not in it:"), h("ul", { class: "muted" }, missing.map((why) => h("li", {}, why)))),
    ],
    actions: [button("Close", { onClick: () => dialog.close() })],
  });
}
