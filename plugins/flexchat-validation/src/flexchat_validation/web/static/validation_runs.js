// Runs: the dialog that starts one, the card that watches it, and earlier runs.

import { h, replace, announce, uid } from "../../js/dom.js";
import { get, post, del, watch } from "../../js/api.js";
import { alert, badge, button, errorCard, spinner, when, busy, ms } from "../../js/elements.js";
import { openDialog, confirmed, toast } from "../../js/dialog.js";
import { markBadge } from "./verdict.js";

const STATES = {
  running: ["running", "accent", "running"],
  finished: ["finished", "ok", "ok"],
  cancelled: ["cancelled", "warn", "stop"],
  interrupted: ["interrupted", "warn", "warning"],
  failed: ["failed", "bad", "failed"],
};

/** The fewest tests, all passed, whose 95 % interval lies beyond 80 %. */
const LEAST = 16;

/** Ask what to run, and start it. */
export function startDialog({ cases, defaults = {}, tag, onStarted }) {
  const tags = [...new Set(cases.flatMap((one) => one.tags || []))].sort();
  const modelList = h("div", { class: "run-choices" }, spinner("Loading models"));
  const runs = h("input", { id: uid("runs"), class: "input run-times", type: "number", min: "1", max: "1000", value: String(defaults.runs || Math.max(1, Math.ceil(LEAST / cases.length))), inputmode: "numeric", onInput: () => plan() });
  const tagBoxes = tags.map((name) => checkbox(name, name === tag, () => plan()));
  const planned = h("p", { class: "run-plan", "aria-live": "polite" });
  const trouble = h("div", {});
  const start = button("Start", { icon: "play", kind: "primary", disabled: true, onClick: () => go() });
  let boxes = [];
  let timer;
  let turn = 0;

  const dialog = openDialog({
    title: "Run cases",
    content: h(
      "div",
      { class: "stack" },
      h("fieldset", { class: "field" }, h("legend", {}, "Models"), modelList),
      tags.length > 0 && h("fieldset", { class: "field" }, h("legend", {}, "Cases with these tags"), h("p", { class: "field-hint" }, "None chosen: all cases."), h("div", { class: "checks" }, tagBoxes.map((one) => one.node))),
      h("div", { class: "field" }, h("label", { for: runs.id }, "How often each case is tried"), h("p", { class: "field-hint" }, `A verdict needs at least ${LEAST} tests of a model, even if all of them pass.`), runs),
      planned,
      defaults.run_tools && defaults.changing_tools?.length > 0 && alert("warn", h("p", {}, `validation.run_tools is on: tools that change something run for real (${defaults.changing_tools.join(", ")}).`)),
      trouble,
    ),
    actions: [button("Cancel", { onClick: () => dialog.close() }), start],
    onClose: () => clearTimeout(timer),
  });
  fillModels();

  async function fillModels() {
    try {
      const { models } = await get("api/models/list");
      const configured = models.filter((one) => defaults.models?.includes(one.id));
      const chosen = new Set((configured.length ? configured : models.filter((one) => one.default)).map((one) => one.id));
      boxes = models.map((model) => checkbox(model.id, chosen.size ? chosen.has(model.id) : models.length === 1, () => plan(), markBadge(model)));
      replace(modelList, boxes.length ? boxes.map((one) => one.node) : h("p", { class: "muted" }, "No service tells its models."));
      plan();
    } catch (error) {
      replace(modelList, errorCard(error, { retry: fillModels, reading: true }));
    }
  }

  function wanted() {
    const number = Number(runs.value);
    const ofTags = tagBoxes.filter((one) => one.box.checked).map((one) => one.name);
    return {
      models: boxes.filter((one) => one.box.checked).map((one) => one.name),
      ...(ofTags.length ? { tags: ofTags } : {}),
      runs: Number.isInteger(number) ? number : 0,
    };
  }

  function plan() {
    const what = wanted();
    const usable = what.models.length > 0 && what.runs >= 1 && what.runs <= 1000;
    start.disabled = !usable;
    replace(trouble);
    if (!usable) {
      planned.textContent = what.models.length ? "Give a number from 1 to 1000." : "Choose at least one model.";
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => estimate(what), 200);
  }

  async function estimate(what) {
    const now = (turn += 1);
    try {
      const { planned: tests, cost, unpriced } = await post("api/validation/plan", what);
      if (now !== turn) return;
      const each = tests / what.models.length;
      replace(planned, h("strong", {}, `${tests} tests`), ` (${each} for each model)`, priceOf(cost, unpriced, what.models), each < LEAST && ` Too few for a verdict: ${LEAST} are the least.`);
    } catch (error) {
      if (now === turn) planned.textContent = error.message;
    }
  }

  async function go() {
    replace(trouble);
    try {
      const run = await busy(start, post("api/validation/runs", wanted()));
      dialog.close();
      announce("The run has started.");
      onStarted(run);
    } catch (error) {
      replace(trouble, errorCard(error));
    }
  }
}

/** Format the estimated cost of a run, and the models without a price. */
function priceOf(cost, unpriced, models) {
  if (!unpriced.length) return `, about ${dollars(cost)}.`;
  const remedy = "give prices in llms.NAME.prices or validation.prices.";
  if (cost === null) return `. The cost is not known: ${remedy}`;
  return `, about ${dollars(cost)} for ${models.length - unpriced.length} of ${models.length} models. Not priced: ${unpriced.join(", ")}; ${remedy}`;
}

function checkbox(name, checked, onChange, ...more) {
  const box = h("input", { type: "checkbox", checked, onChange });
  return { name, box, node: h("label", { class: "check" }, box, h("span", {}, name), more) };
}

/** Return a card that shows a run until its end. onAttempts: called for new results (at most every two seconds). */
export function watchRun(run, { signal, onAttempts, onEnd }) {
  const state = h("span", {});
  const bar = h("progress", { class: "run-bar", "aria-label": "Progress of the run" });
  const counts = h("p", { class: "run-counts" });
  const last = h("p", { class: "muted small-text run-last" });
  const trouble = h("div", {});
  const cancel = button("Cancel", { icon: "stop", kind: "small", onClick: () => stop() });
  const node = h("section", { class: "card run-live", "aria-label": "Run under way" }, h("div", { class: "spread" }, h("div", { class: "row" }, h("h2", {}, "Run"), state), cancel), bar, counts, last, trouble);
  let now = run;
  let told = Date.now();
  show();
  follow();
  return node;

  function show() {
    const [text, kind, picture] = STATES[now.state] || [now.state, "", null];
    replace(state, badge(text, kind, picture));
    bar.max = now.planned || 1;
    bar.value = now.done || 0;
    const left = remaining(now);
    replace(counts, `${now.done} of ${now.planned} tests: `, h("span", { class: "good" }, `${now.passed} passed`), ", ", h("span", { class: "poor" }, `${now.failed} failed`), now.errors ? `, ${now.errors} ${now.errors === 1 ? "error" : "errors"}` : "", now.cost ? `, ${dollars(now.cost)}` : "", left > 0 && `, about ${ms(left)} left`);
    cancel.hidden = now.state !== "running";
    if (now.problem) replace(last, now.problem);
  }

  async function follow() {
    try {
      for await (const { event, data } of watch(`api/validation/runs/${encodeURIComponent(run.id)}/events`, { signal })) {
        replace(trouble);
        if (event === "run") {
          now = data;
          show();
        } else if (event === "attempt") {
          last.textContent = `${data.case} at ${data.model_id}: ${data.outcome}${data.problems?.length ? `. ${data.problems[0]}` : ""}`;
          if (Date.now() - told > 2000) {
            told = Date.now();
            onAttempts();
          }
        }
      }
      if (now.state === "running") now = await get(`api/validation/runs/${encodeURIComponent(run.id)}`);
      show();
      announce(`The run is ${now.state}: ${now.passed} passed, ${now.failed} failed.`);
      onEnd(now);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      // It is unknown whether it still runs.
      replace(state, badge("not known", "warn", "warning"));
      cancel.hidden = true;
      replace(trouble, errorCard(error, { retry: follow, reading: true, title: "The run cannot be watched" }));
    }
  }

  async function stop() {
    const sure = await confirmed({ title: "Cancel the run?", text: "Results so far are kept. The run can be resumed later.", action: "Cancel the run", keep: "Keep running", danger: true });
    if (!sure) return;
    try {
      await busy(cancel, del(`api/validation/runs/${encodeURIComponent(run.id)}`));
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
  }
}

/** Return earlier runs as a table. */
export function runHistory(runs, { show, resume }) {
  if (!runs.length) return null;
  return h(
    "section",
    { class: "stack", "aria-labelledby": "runs-title" },
    h("h2", { id: "runs-title" }, "Runs"),
    h("ul", { class: "runs" }, runs.map((run) => runRow(run, show, resume))),
  );
}

function runRow(run, show, resume) {
  const [text, kind, picture] = STATES[run.state] || [run.state, "", null];
  // Attempts without a result count as done, and are retried.
  const open = ["cancelled", "interrupted", "failed"].includes(run.state) && run.passed + run.failed < run.planned;
  const again = button("Resume", { icon: "play", kind: "small", onClick: () => resume(run, again) });
  return h(
    "li",
    { class: "run" },
    h("div", { class: "run-what" }, h("div", { class: "row" }, badge(text, kind, picture), when(run.started_at)), h("p", { class: "small-text model-name" }, [run.models].flat().join(", ")), run.problem && h("p", { class: "small-text" }, run.problem)),
    h("p", { class: "run-numbers" }, `${run.done}/${run.planned} tests, ${run.passed} passed, ${run.failed} failed`, run.errors ? `, ${run.errors} ${run.errors === 1 ? "error" : "errors"}` : "", run.cost ? `, ${dollars(run.cost)}` : ""),
    h("div", { class: "row" }, open && again, button("Attempts", { icon: "list", kind: "small quiet", onClick: () => show(run) })),
  );
}

function remaining({ state, done, planned, started_at: began }) {
  if (state !== "running" || !done || done >= planned) return 0;
  return ((Date.now() - new Date(began).getTime()) / done) * (planned - done);
}

function dollars(cost) {
  return cost === 0 ? "free" : cost < 0.01 ? "less than $0.01" : `$${cost.toFixed(2)}`;
}
