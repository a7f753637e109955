// The phases of a turn as a timeline: input, outcome and duration of each.

import { h, icon } from "../dom.js";
import { alert, badge, counted, money, ms } from "../elements.js";
import { jsonView } from "../json_view.js";
import { ruleName } from "../rule_labels.js";

const MEANING = {
  "topic detection": "What is the conversation about?",
  "rag collection": "Do documents fit?",
  "intent detection": "What does the user want?",
  "profile building": "All that is known of the message",
  "response matching": "Which rule fits first?",
  "response generation": "The answer, with the tools it needs",
};

/** Return phases as a section. */
export function timeline(phases) {
  return h(
    "section",
    { class: "stack", "aria-labelledby": "explain-phases" },
    h("h2", { id: "explain-phases" }, "Phases"),
    h(
      "ol",
      { class: "timeline" },
      phases.map((one, index) =>
        h(
          "li",
          { class: [one.skipped && "skipped", one.warnings?.length && "warned"] },
          h("span", { class: "timeline-mark", "aria-hidden": "true" }, String(index + 1)),
          h(
            "div",
            { class: "timeline-body" },
            h("div", { class: "spread" }, h("h3", { title: one.phase === "rag collection" ? "The Node original calls it RAG collection." : null }, one.phase === "rag collection" ? "document search" : one.phase), one.skipped ? badge("not run") : h("span", { class: "muted small-text" }, [ms(one.elapsed_ms), tokens(one.usage), ...(one.rounds || []).map((round) => money(round.cost))].filter(Boolean).join(" · "))),
            h("p", { class: "muted small-text" }, one.skipped ? `Not run: ${one.skipped}.` : MEANING[one.phase]),
            !one.skipped && h("p", {}, outcome(one)),
            one.warnings?.length > 0 && alert("warn", h("ul", {}, one.warnings.map((text) => h("li", {}, text)))),
            !one.skipped &&
              h(
                "details",
                { class: "lint" },
                h("summary", {}, icon("right"), h("span", { class: "small-text muted" }, "Details")),
                h("div", { class: "stack tight" }, one.input !== undefined && [h("h4", {}, "Input"), jsonView(one.input, { label: "input" })], h("h4", {}, "Outcome"), jsonView(one.outcome, { label: "outcome" })),
              ),
          ),
        ),
      ),
    ),
  );
}

/** Format the number of tokens read and written; empty if unknown. */
export function tokens(usage) {
  const count = (usage?.input_tokens || 0) + (usage?.output_tokens || 0);
  return count ? counted(count, "token") : "";
}

/** Describe the outcome of a phase. */
export function outcome({ phase, outcome: found }) {
  if (found === null || found === undefined) return h("span", { class: "muted" }, "nothing");
  if (typeof found !== "object") return h("strong", {}, String(found));
  if (phase === "topic detection") return [h("strong", {}, found.topic), " ", badge(String(found.status || "").replaceAll("_", " "))];
  if (phase === "rag collection") {
    const hits = [found.data ?? []].flat();
    return [h("strong", {}, found.result), hits.map((hit) => h("span", { class: "hit" }, [hit.service, hit.collection].filter(Boolean).join("/"), hit.distance !== undefined && ` at distance ${hit.distance.toFixed(3)}`, hit.documents?.length && `: ${[hit.documents].flat().join(", ")}`))];
  }
  if (phase === "response matching") return h("strong", {}, `${ruleName(found.rule, found.name)} (${found.llm})`);
  const known = Object.entries(found).filter(([, value]) => value !== null && value !== 0 && value !== "");
  return known.map(([key, value]) => [badge(`${key} ${typeof value === "object" ? JSON.stringify(value) : value}`), " "]);
}
