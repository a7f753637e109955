// Attempts of a cell of the matrix, or of a run, each with its problems, calls and answer.

import { h, icon, replace } from "../../js/dom.js";
import { get } from "../../js/api.js";
import { badge, errorCard, spinner, ms, when } from "../../js/elements.js";
import { openDialog } from "../../js/dialog.js";
import { toolCallCard } from "../../js/tool_call.js";

const OUTCOMES = { passed: ["passed", "ok", "ok"], failed: ["failed", "bad", "failed"], error: ["error of the service", "warn", "warning"] };
const SHOWN = 50;

/** Open a dialog with the attempts of a model at a case, or of a run. */
export function showAttempts({ model, name, known, run }) {
  const body = h("div", { class: "stack tight" }, spinner("Loading attempts"));
  openDialog({ title: run ? "Attempts of a run" : `${name} at ${model}`, content: body, wide: true });
  const load = async () => {
    try {
      const { attempts } = run
        ? await get(`api/validation/runs/${encodeURIComponent(run.id)}`)
        : await get("api/validation/attempts", { model_id: model, case: name, limit: SHOWN });
      fill(body, attempts, { known, several: Boolean(run) });
    } catch (error) {
      replace(body, errorCard(error, { retry: load, reading: true }));
    }
  };
  load();
}

function fill(body, attempts, { known, several }) {
  const ordered = several ? [...attempts].sort((a, b) => (a.outcome === "passed") - (b.outcome === "passed")) : attempts;
  replace(
    body,
    known && h("dl", { class: "facts" }, fact("Message", known.message), fact("Expected", known.expects), fact("Tags", (known.tags || []).join(", "))),
    attempts.length ? null : h("p", { class: "muted" }, "No attempts are kept."),
    ordered.slice(0, SHOWN).map((one) => attemptCard(one, several, ordered.length === 1)),
    ordered.length > SHOWN && h("p", { class: "muted" }, `Shown are ${SHOWN} of ${ordered.length}; failed ones first.`),
  );
}

function attemptCard(attempt, several, open) {
  const [text, kind, picture] = OUTCOMES[attempt.outcome] || [attempt.outcome, "", null];
  return h(
    "details",
    { class: "attempt", open },
    h(
      "summary",
      {},
      icon("right"),
      badge(text, kind, picture),
      attempt.stale && badge("stale", "warn", "history"),
      several && h("span", { class: "attempt-of" }, `${attempt.case} · ${attempt.model_id}`),
      h("span", { class: "attempt-end muted small-text" }, ms(attempt.elapsed_ms), " · ", when(attempt.at)),
      attempt.problems.length > 0 && h("span", { class: "attempt-problem" }, attempt.problems[0]),
    ),
    h(
      "div",
      { class: "attempt-body" },
      attempt.problems.length > 1 && h("ul", {}, attempt.problems.slice(1).map((one) => h("li", {}, one))),
      attempt.calls.length > 0 ? h("div", { class: "stack tight" }, attempt.calls.map((call) => toolCallCard.of(call))) : h("p", { class: "muted" }, "No tool was called."),
      attempt.content && h("div", { class: "test-answer plain", dir: "auto" }, attempt.content),
    ),
  );
}

function fact(name, value) {
  return value ? h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value)) : null;
}
