// The models: verdict, rate and interval of each, and the same per aspect.

import { h, icon } from "../../js/dom.js";
import { verdictBadge, staleBadge, intervalBar, moreNeeded, notCounted, percent, range } from "./verdict.js";
import { when } from "../../js/elements.js";

const ASPECTS = [
  ["right_tool", "Right tool"],
  ["right_arguments", "Right arguments"],
  ["abstains", "Abstains"],
  ["parallel", "Parallel calls"],
  ["recovers", "Recovers from errors"],
];

/** Return a card for each model of a matrix. */
export function modelCards(matrix) {
  if (!matrix.models.length) return null;
  return h(
    "section",
    { class: "stack", "aria-labelledby": "models-title" },
    h("div", { class: "spread" }, h("h2", { id: "models-title" }, "Models"), legend()),
    h("div", { class: "validation-models" }, matrix.models.map((model) => card(model, matrix))),
  );
}

/** Return models that cannot be run here, folded away: those of services that the configuration does not have. */
export function otherModels(matrix, table) {
  return h(
    "details",
    { class: "other-models" },
    h("summary", {}, icon("right"), h("h2", {}, `Other models in this store (${matrix.models.length})`)),
    h(
      "div",
      { class: "stack" },
      h("p", { class: "muted" }, "Their services are not in this configuration, so they cannot be run here. Other projects may keep their results in the same store."),
      h("div", { class: "validation-models" }, matrix.models.map((model) => card(model, matrix, false))),
      table,
    ),
  );
}

function card(model, matrix, runs = true) {
  const ofModel = (one) => one.model_id === model.model_id;
  const aspects = matrix.aspects.filter(ofModel);
  const more = moreNeeded(model);
  return h(
    "article",
    { class: "card validation-model" },
    h("h3", { class: "model-name" }, model.model_id),
    h("div", { class: "row" }, verdictBadge(model), staleBadge(model), more && h("span", { class: "small-text more-needed" }, more)),
    model.tested
      ? h(
          "div",
          { class: "validation-rate" },
          h("p", {}, h("strong", { class: "rate" }, percent(model.rate)), h("span", { class: "muted" }, ` ${model.success_count} of ${model.test_count} passed${someCases(matrix.cells.filter(ofModel))}`)),
          intervalBar(model, { label: model.model_id }),
          h("p", { class: "muted small-text" }, `95 % interval: ${range(model)}`),
        )
      : h("p", { class: "muted" }, `No results that count.${runs ? " Run the cases." : ""}`),
    model.errors > 0 && h("p", { class: "small-text not-counted" }, notCounted(model.errors)),
    model.tested && model.verdict === "undecided" && !model.stale && h("p", { class: "small-text" }, model.reason),
    (model.stale_reasons || []).length > 0 && h("ul", { class: "small-text" }, model.stale_reasons.map((one) => h("li", {}, one))),
    aspects.some((one) => one.tests) && h("table", { class: "aspects" }, h("caption", { class: "visually-hidden" }, `Aspects of ${model.model_id}`), h("tbody", {}, ASPECTS.map(([name, label]) => aspectRow(label, aspects.find((one) => one.aspect === name))))),
    model.last_tested && h("p", { class: "muted small-text" }, "Last tested ", when(model.last_tested)),
  );
}

/** Format the number of cases behind the rate, unless it is all. */
function someCases(cells) {
  const tried = cells.filter((cell) => !cell.stale && cell.passed + cell.failed > 0).length;
  return tried > 0 && tried < cells.length ? `, in ${tried} of ${cells.length} cases` : "";
}

function aspectRow(label, aspect) {
  if (!aspect?.tests) return null;
  return h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "aspect-bar" }, intervalBar(aspect, { label })), h("td", { class: "aspect-count" }, `${aspect.successes}/${aspect.tests}`));
}

function legend() {
  return h(
    "p",
    { class: "muted small-text legend" },
    "Bar: 95 % interval of the true rate. Dashed: the line at 80 %. Validated once the whole bar is beyond it and there are enough tests that expect a call: where their number was not fixed beforehand, it takes more.",
  );
}
