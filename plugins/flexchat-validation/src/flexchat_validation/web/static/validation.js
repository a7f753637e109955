// Validation: models × cases, with runs to start, watch and review.

import { h, icon, replace } from "../../js/dom.js";
import { get, post, uiConfig } from "../../js/api.js";
import { pageHead, button, alert, emptyState, errorCard, spinner, busy } from "../../js/elements.js";
import { toast } from "../../js/dialog.js";
import { codeView } from "../../js/json_view.js";
import { modelCards, otherModels } from "./validation_models.js";
import { matrixTable } from "./validation_matrix.js";
import { startDialog, runHistory, watchRun } from "./validation_runs.js";
import { showAttempts } from "./validation_attempts.js";

export const title = "Validation";

const EXAMPLE = `[[validation.cases]]
name = "tip"
message = "What is 15% of 45?"
calls = [{ tool = "calculator" }]
answer = { contains = ["6.75"] }
tags = ["arithmetic"]

[[validation.cases]]
name = "small talk"
message = "Good morning!"
no_call = true
`;

/** Show the page. #/validation?tag=WORD shows the cases of a tag. */
export async function mount(root, { query }) {
  const server = await uiConfig().catch(() => ({}));
  const runButton = button("Run cases…", { icon: "play", kind: "primary", disabled: true, onClick: () => openStart() });
  const live = h("div", { class: "stack", hidden: true });
  const body = h("div", { class: "stack validation-body" }, spinner("Loading results"));
  const watched = new Set();
  const stop = new AbortController();
  let cases = { cases: [], problems: [] };
  let tag = query?.get("tag") || "";
  let asked = 0;

  root.append(
    pageHead("Validation", "Your own cases, tried at your models.", transfer(server, () => refresh()), runButton),
    live,
    body,
  );

  async function refresh() {
    const turn = (asked += 1);
    try {
      const [found, matrix, runs] = await Promise.all([
        get("api/validation/cases"),
        get("api/validation/matrix", { tag }),
        get("api/validation/runs", { limit: 20 }),
      ]);
      if (turn !== asked || stop.signal.aborted) return;
      cases = found;
      runButton.disabled = !cases.cases.length;
      show(matrix, runs.runs);
      for (const run of runs.runs) if (run.state === "running") follow(run);
    } catch (error) {
      if (turn === asked) replace(body, errorCard(error, { retry: refresh, reading: true }));
    }
  }

  function show(whole, runs) {
    const known = new Map(cases.cases.map((one) => [one.name, one]));
    const { own: matrix, others } = split(whole, server.llms);
    const attempts = (model, name) => showAttempts({ model, name, known: known.get(name) });
    const foreign = others.models.length > 0 && otherModels(others, matrixTable(others, known, attempts, "Results of other models"));
    const problems = (cases.problems || []).length > 0 && alert("warn", h("p", {}, h("strong", {}, "Some cases cannot be used")), h("ul", { class: "problems" }, cases.problems.map((one) => h("li", {}, one.path && h("code", {}, one.path), " ", one.text, one.line ? ` (line ${one.line})` : ""))));
    if (!cases.cases.length && !matrix.cells.length) {
      replace(body, problems, noCases(server), matrix.models.some((one) => one.tested) && modelCards(matrix), foreign, runHistory(runs, actions));
      return;
    }
    const scroll = body.querySelector(".matrix-scroll");
    const place = scroll && [scroll.scrollLeft, scroll.scrollTop];
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    if (foreign) foreign.open = Boolean(body.querySelector(".other-models")?.open);
    replace(
      body,
      problems,
      whole.next !== null && h("p", { class: "muted" }, `The first ${whole.models.length} of ${whole.total} models are shown.`),
      modelCards(matrix),
      h(
        "section",
        { class: "stack", "aria-labelledby": "matrix-title" },
        h("div", { class: "spread" }, h("h2", { id: "matrix-title" }, "Cases"), tagFilter()),
        matrixTable(matrix, known, attempts),
      ),
      foreign,
      runHistory(runs, actions),
    );
    if (place) body.querySelector(".matrix-scroll")?.scrollTo(...place);
    if (focused?.dataset.cell) [...body.querySelectorAll(".matrix-cell")].find((one) => one.dataset.cell === focused.dataset.cell)?.focus({ preventScroll: true });
    else if (focused?.matches(".tag-filter")) body.querySelector(".tag-filter")?.focus({ preventScroll: true });
  }

  function tagFilter() {
    const tags = [...new Set(cases.cases.flatMap((one) => one.tags || []))].sort();
    if (!tags.length) return null;
    const pick = (wanted) => {
      tag = wanted;
      refresh();
    };
    const select = h(
      "select",
      { class: "input tag-filter", "aria-label": "Tag of the cases shown", value: tag, onChange: () => pick(select.value) },
      h("option", { value: "" }, "All tags"),
      tags.map((one) => h("option", { value: one }, one)),
    );
    return select;
  }

  const actions = {
    show: (run) => showAttempts({ run }),
    async resume(run, node) {
      try {
        const resumed = await busy(node, post(`api/validation/runs/${encodeURIComponent(run.id)}/resume`, null));
        watched.delete(run.id); // the card of its first part may still be shown
        follow(resumed);
        refresh();
      } catch (error) {
        toast(error.message, { kind: "bad" });
      }
    },
  };

  function openStart() {
    startDialog({
      cases: cases.cases,
      defaults: cases.defaults,
      tag,
      onStarted: (run) => {
        follow(run);
        refresh();
      },
    });
  }

  function follow(run) {
    if (watched.has(run.id)) return;
    watched.add(run.id);
    live.hidden = false;
    const card = watchRun(run, {
      signal: stop.signal,
      onAttempts: () => refresh(),
      onEnd: (ended) => {
        watched.delete(run.id);
        if (ended.state === "finished") toast(`The run is finished: ${ended.passed} passed, ${ended.failed} failed.`, { kind: "ok" });
        setTimeout(() => {
          card.remove();
          live.hidden = !live.children.length;
        }, 4000);
        refresh();
      },
    });
    live.append(card);
  }

  await refresh();
  return { unmount: () => stop.abort() };
}

/** Separate this configuration's models from others in the store, which may be shared. */
function split(matrix, services) {
  const names = new Set((services || []).map((one) => one.name));
  const isOwn = (id) => !services || names.has(id.split("/")[0]);
  const part = (own) => {
    const of = (list) => list.filter((one) => isOwn(one.model_id) === own);
    return { ...matrix, models: of(matrix.models), aspects: of(matrix.aspects), cells: of(matrix.cells) };
  };
  return { own: part(true), others: part(false) };
}

function transfer(server, onImported) {
  const input = h("input", { type: "file", accept: "application/json,.json", class: "visually-hidden", tabindex: "-1", "aria-hidden": "true", onChange: () => read() });
  const importing = button("Import", {
    icon: "upload",
    disabled: Boolean(server.read_only),
    title: server.read_only ? "This server is read-only." : null,
    onClick: () => input.click(),
  });
  async function read() {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      const data = JSON.parse(await file.text());
      const { imported } = await busy(importing, post("api/validation/import", data));
      toast(`${imported} ${imported === 1 ? "result" : "results"} imported from ${file.name}.`, { kind: "ok" });
      onImported();
    } catch (error) {
      toast(error instanceof SyntaxError ? `${file.name} is not JSON: ${error.message}` : error.message, { kind: "bad", seconds: 10 });
    }
  }
  return [input, importing, h("a", { class: "button", href: "api/validation/export", download: "flexchat-validations.json" }, icon("download"), h("span", {}, "Export"))];
}

function noCases(server) {
  return emptyState(
    "No cases yet",
    h("p", {}, "A case is a message and what a model should do with it: which tools it calls, with which arguments, or that it calls none. Write some into ", server.config?.format ? h("code", {}, server.config.name) : "your configuration", ":"),
    h("div", { class: "validation-example" }, codeView(EXAMPLE, { lines: 40, label: "example" })),
    h("p", {}, "Longer lists go into files of their own (", h("code", {}, "validation.files"), "). ", h("code", {}, "flexchat record"), " makes cases from conversations, ", h("code", {}, "flexchat cases import"), " from BFCL and promptfoo."),
    h("p", {}, h("a", { href: "#/config" }, "Open the configuration")),
  );
}
