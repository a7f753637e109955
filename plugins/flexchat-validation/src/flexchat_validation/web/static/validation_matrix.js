// The table: cases in rows, models in columns.

import { h, icon } from "../../js/dom.js";
import { verdictBadge, staleBadge, intervalBar, percent } from "./verdict.js";

/** Return the table. known: case's name → case; onOpen(model id, case's name). */
export function matrixTable({ models, cases, cells }, known, onOpen, label = "Results by case and model") {
  const found = new Map(cells.map((cell) => [JSON.stringify([cell.model_id, cell.case]), cell]));
  const names = [...new Set([...cases, ...known.keys()].filter((name) => cases.includes(name)))];
  if (!names.length) return h("p", { class: "muted" }, "No case has this tag.");
  return h(
    "div",
    { class: "matrix-scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      { class: "matrix" },
      h(
        "thead",
        {},
        h("tr", {}, h("th", { scope: "col", class: "matrix-corner" }, "Case"), models.map(columnHead)),
      ),
      h(
        "tbody",
        {},
        names.map((name) =>
          h(
            "tr",
            {},
            rowHead(name, known.get(name)),
            models.map((model) => h("td", {}, cellOf(found.get(JSON.stringify([model.model_id, name])), model.model_id, name, onOpen))),
          ),
        ),
      ),
    ),
  );
}

function columnHead(model) {
  return h(
    "th",
    { scope: "col" },
    h("span", { class: "model-name" }, model.model_id),
    h("span", { class: "row" }, verdictBadge(model), staleBadge(model), model.tested && h("span", { class: "muted" }, percent(model.rate))),
    model.tested && intervalBar(model, { label: model.model_id }),
  );
}

function rowHead(name, known) {
  return h(
    "th",
    { scope: "row" },
    h("span", { class: "case-name" }, name),
    known?.expects && h("span", { class: "case-expects" }, known.expects),
    !known && h("span", { class: "case-expects" }, "not in the configuration any more"),
  );
}

function cellOf(cell, model, name, onOpen) {
  if (!cell || !(cell.passed + cell.failed + cell.errors)) {
    return h("span", { class: "matrix-cell none" }, h("span", { "aria-hidden": "true" }, "–"), h("span", { class: "visually-hidden" }, "not tried"));
  }
  const { passed, failed, errors } = cell;
  const tried = passed + failed;
  const [state, word, picture] =
    !tried ? ["error", "errors of the service", "warning"]
    : !failed ? ["passed", "passed", "check"]
    : !passed ? ["failed", "failed", "close"]
    : ["mixed", "partly passed", "minus"];
  const said = tried ? `${word}: ${passed} of ${tried}${errors ? `, ${errors} errors of the service` : ""}` : `${errors} ${word}`;
  return h(
    "button",
    {
      type: "button",
      class: ["matrix-cell", state, cell.stale && "stale"],
      data: { cell: JSON.stringify([model, name]) },
      title: [said, cell.stale && "stale: from another model, tools or case text", ...(cell.last_problems || [])].filter(Boolean).join("\n"),
      onClick: () => onOpen(model, name),
    },
    icon(picture),
    h("span", { "aria-hidden": "true" }, tried ? `${passed}/${tried}` : "error"),
    tried > 0 && errors > 0 && h("span", { class: "matrix-errors", "aria-hidden": "true" }, `+ ${errors} ${errors === 1 ? "error" : "errors"}`),
    h("span", { class: "visually-hidden" }, `${name} at ${model}: ${said}${cell.stale ? ", stale" : ""}. Show the attempts.`),
  );
}
