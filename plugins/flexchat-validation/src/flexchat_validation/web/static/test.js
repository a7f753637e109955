// Test: one query to one model, whether it calls the tools, and the model's record afterwards.

import { h, icon, replace, announce, uid } from "../../js/dom.js";
import { get, stream, ApiError } from "../../js/api.js";
import { pageHead, button, badge, alert, counted, errorCard, spinner, ms, when } from "../../js/elements.js";
import { markdown } from "../../js/markdown.js";
import { liveCalls } from "../../js/live_calls.js";
import { confirmed } from "../../js/dialog.js";
import { effectOfTool } from "../../js/tool_definition.js";
import { toolCallCard } from "../../js/tool_call.js";
import { modelMark, markBadge, verdictBadge, staleBadge, intervalBar, moreNeeded, notCounted, sentence } from "./verdict.js";

export const title = "Test";

const EXAMPLES = [
  ["Simple tool call", "What's the weather in Paris?"],
  ["Calculator", "Calculate 15% tip on $45"],
  ["Direct answer", "What's 2+2?"],
  ["Document search", "Search for Python decorators in the docs"],
];

/** Show the page. #/test?model=LLM/MODEL chooses a model. */
export async function mount(root, { query }) {
  const field = uid("query");
  const chooser = uid("model");
  const select = h("select", { id: chooser, class: "input", disabled: true, onChange: () => showModelState() }, h("option", { value: "" }, "Loading models…"));
  const known = h("div", { class: "test-known", "aria-live": "polite" });
  const text = h("textarea", { id: field, class: "input", dir: "auto", rows: 3, placeholder: "For example: What's the weather in Paris?" });
  const expects = h("input", { type: "checkbox" });
  const runsTools = h("input", { type: "checkbox" });
  const changing = h("div", { hidden: true });
  const missing = h("div", { class: "test-missing" });
  const results = h("section", { class: "stack test-results", "aria-label": "Results", hidden: true });
  const tools = h("section", { class: "stack", "aria-labelledby": "test-tools" }, h("h2", { id: "test-tools" }, "Tools"), spinner("Loading tools"));
  const runButton = button("Run test", { icon: "play", kind: "primary", type: "submit" });
  const stopButton = button("Stop", { icon: "stop", hidden: true, onClick: () => running?.abort() });
  const form = h(
    "form",
    { class: "card test-form", novalidate: true },
    h("div", { class: "field" }, h("label", { for: chooser }, "Model"), select, known),
    h("div", { class: "field" }, h("label", { for: field }, "Query"), text),
    h(
      "div",
      { class: "field" },
      h("p", { class: "field-hint", id: "test-examples" }, "Examples"),
      h(
        "div",
        { class: "test-examples", role: "group", "aria-labelledby": "test-examples" },
        EXAMPLES.map(([name, words]) =>
          h("button", { type: "button", class: "test-example", onClick: () => ((text.value = words), text.focus()) }, h("strong", {}, name), h("span", {}, words)),
        ),
      ),
    ),
    h("label", { class: "check" }, expects, h("span", {}, "A tool call is expected: judge the answer by it, and count it for the model")),
    changing,
    missing,
    h("div", { class: "row" }, runButton, stopButton),
  );
  root.append(pageHead("Test", "Ask one model, and see which tools it really calls. What it answers is judged only where you say what you expect."), tools, form, results);

  let models = [];
  let running = null;
  let gone = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });

  let writing = []; // names of tools that change something
  showTools(tools, (all) => {
    writing = all.filter((tool) => tool.effect !== "read").map((tool) => tool.name);
    changing.hidden = !writing.length;
    replace(
      changing,
      h("label", { class: "check" }, runsTools, h("span", {}, "Run tools that change something, for real")),
      h("p", { class: "field-hint" }, `Otherwise they are not run, and answer with success: ${writing.join(", ")}.`),
    );
  });
  loadModels();

  async function loadModels() {
    try {
      const found = await get("api/models/list");
      models = found.models;
      fillModels(found, select.value || query?.get("model") || "");
    } catch (error) {
      replace(select, h("option", { value: "" }, "No models"));
      replace(known, errorCard(error, { retry: loadModels, reading: true }));
    }
  }

  function fillModels({ errors }, chosen) {
    const services = grouped(models);
    replace(
      select,
      h("option", { value: "" }, models.length ? "Choose a model" : "No models found"),
      [...services].map(([service, list]) => h("optgroup", { label: service }, list.map((model) => h("option", { value: model.id }, optionText(model))))),
    );
    select.disabled = false;
    select.value = models.some((model) => model.id === chosen) ? chosen : models.length === 1 ? models[0].id : "";
    showModelState();
    if (errors?.length) known.append(alert("warn", ...errors.map((one) => h("p", {}, h("strong", {}, one.llm), ` ${one.error}`))));
  }

  function showModelState() {
    const model = models.find((one) => one.id === select.value);
    replace(known, model && [h("div", { class: "row" }, markBadge(model), staleBadge(model.validation), model.validation?.tested && countOf(model.validation))]);
    if (model?.validation?.stale) known.append(h("p", { class: "field-hint" }, model.validation.stale_reasons.join(" ")));
  }

  async function run() {
    if (running) return;
    const wanted = text.value.trim();
    replace(missing);
    if (!wanted || !select.value) {
      const what = !wanted && !select.value ? "a model and a query" : wanted ? "a model" : "a query";
      missing.append(alert("bad", h("p", {}, `Please give ${what} first.`)));
      (select.value ? text : select).focus();
      return;
    }
    const real = runsTools.checked && writing.length > 0;
    if (real && !(await confirmed({ title: "Run tools for real?", text: `The model may call tools that change something, with any arguments: ${writing.join(", ")}.`, action: "Run", danger: true }))) return;
    if (running || gone) return;
    running = new AbortController();
    busy(true);
    const judged = expects.checked;
    const answer = h("p", { class: "test-answer plain", dir: "auto" });
    const heading = h("h3", {}, "Tool calls");
    const made = h("div", { class: "stack tight" });
    const calls = liveCalls((card) => {
      made.append(card);
      heading.textContent = `Tool calls (${made.childElementCount})`;
    });
    results.hidden = false;
    const place = h("div", { class: "stack" });
    replace(results, h("h2", {}, "Results"), h("div", { class: "card" }, heading, made, h("h3", {}, "Answer"), answer, spinner("The model is working")), place);
    announce("The test runs.");
    try {
      let report = null;
      for await (const { event, data } of stream("api/tools/test", { query: wanted, model: select.value, record: judged, run_tools: real, stream: true }, { signal: running.signal })) {
        if (event === "test") report = data;
        else if (event === "error") throw new ApiError(data.status || 500, data);
        else if (event === "text") answer.append(data.text);
        else if (event === "answer_end" && answer.textContent) answer.append("\n\n");
        calls.take({ event, data });
      }
      if (!report) throw new ApiError(0, { title: "Broken off", detail: "The server ended the test without a result." });
      if (gone) return;
      await showReport(results, report, judged);
      announce(`The test is done: ${counted((report.tool_calls || []).length, "tool call")}, ${outcomeOf(report, judged)[0]}.`);
      await loadModels();
    } catch (error) {
      calls.stop();
      results.querySelector(".spinner")?.remove();
      if (error.name === "AbortError") place.append(alert("warn", h("p", {}, "Stopped. A test that was stopped does not count.")));
      else place.append(errorCard(error, { retry: run, title: "The test failed" }));
    } finally {
      running = null;
      busy(false);
    }
  }

  function busy(on) {
    runButton.disabled = on;
    stopButton.hidden = !on;
    form.setAttribute("aria-busy", String(on));
    replace(runButton, icon(on ? "running" : "play"), h("span", {}, on ? "Testing…" : "Run test"));
  }

  return {
    unmount() {
      gone = true;
      running?.abort();
    },
  };
}

/** Return the outcome of a test as a badge's label, colour and icon. */
function outcomeOf(report, judged) {
  if (!judged) return ["not judged", "", "info"];
  return report.succeeded ? ["passed", "ok", "ok"] : ["failed", "bad", "failed"];
}

const WHY = {
  "not judged": "Nothing was expected, so nothing can be said to have passed. This test does not count.",
  passed: "A tool was called, and no call failed. This test counts.",
  failed: "A tool call was expected, and none was made, or one failed. This test counts.",
};

async function showReport(place, report, judged) {
  const calls = report.tool_calls || [];
  const answer = report.content ? await markdown(report.content) : h("p", { class: "muted" }, "The model said nothing.");
  replace(
    place,
    h("h2", {}, "Results"),
    h(
      "div",
      { class: "card" },
      h("div", { class: "spread" }, h("h3", {}, `Tool calls (${calls.length})`), badge(...outcomeOf(report, judged))),
      h("p", { class: "muted small-text" }, WHY[outcomeOf(report, judged)[0]]),
      calls.length
        ? h("div", { class: "stack tight" }, calls.map((call) => toolCallCard.of(call, calls.length <= 3)))
        : h("p", { class: "muted" }, "The model called no tool.", judged && " A test without a call is not a success."),
      report.not_run?.length > 0 && alert("warn", h("p", {}, `Not run, because ${report.not_run.length > 1 ? "they change" : "it changes"} something: ${report.not_run.join(", ")}. The model was told that it succeeded.`)),
      h("h3", {}, "Answer"),
      h("div", { class: "test-answer" }, answer),
      report.max_iterations_reached && alert("warn", h("p", {}, h("strong", {}, "Limit of iterations reached."), " The model kept calling tools until it was stopped.")),
      (report.warnings || []).length > 0 && alert("warn", ...report.warnings.map((one) => h("p", {}, one))),
      facts([
        ["Model", report.model],
        ["Service", report.service],
        ["Rounds", report.iterations],
        ["Time", ms(report.elapsed_ms)],
        ["Tokens", report.usage && `${report.usage.input_tokens ?? report.usage.prompt_tokens ?? "?"} in, ${report.usage.output_tokens ?? report.usage.completion_tokens ?? "?"} out`],
      ]),
    ),
    statusCard(report.validation),
  );
}

function statusCard(status) {
  if (!status?.tested) return null;
  return h(
    "div",
    { class: "card test-status" },
    h("div", { class: "spread" }, h("h3", {}, `What is known of ${status.model_id}`), h("div", { class: "row" }, verdictBadge(status), staleBadge(status))),
    intervalBar(status),
    h("p", {}, sentence(status), " ", moreNeeded(status) && h("strong", {}, `${moreNeeded(status)}.`)),
    status.errors > 0 && h("p", {}, notCounted(status.errors)),
    (status.stale_reasons || []).length > 0 && h("ul", {}, status.stale_reasons.map((one) => h("li", {}, one))),
    h("p", { class: "muted small-text" }, "Single tests show little. ", h("a", { href: "#/validation" }, "Run your own cases"), " for a verdict you can rely on."),
  );
}

async function showTools(place, onKnown) {
  try {
    const { tools, enabled } = await get("api/tools/list");
    onKnown(tools);
    const list = h("ul", { class: "test-tools" });
    const show = (some) => replace(list, some.map(toolCard));
    const more = tools.length > 6 && button(`Show all ${tools.length}`, { kind: "quiet small", onClick: () => (show(tools), more.remove()) });
    show(tools.slice(0, 6));
    replace(
      place,
      h("div", { class: "spread" }, h("h2", { id: "test-tools" }, `Tools (${tools.length})`), more),
      tools.length
        ? list
        : alert("warn", h("p", {}, enabled === false ? "Tools are switched off in the configuration, so no model can call one." : "The configuration has no tools, so no model can call one."), h("p", {}, h("a", { href: "#/config" }, "Add tools"))),
    );
  } catch (error) {
    replace(place, h("h2", { id: "test-tools" }, "Tools"), errorCard(error, { retry: () => showTools(place, onKnown), reading: true }));
  }
}

function toolCard(tool) {
  return h(
    "li",
    { class: "card test-tool" },
    h("div", { class: "spread" }, h("h3", { class: "mono" }, tool.name), h("span", { class: "row" }, badge(tool.implementation?.type || tool.type), effectOfTool(tool.effect))),
    h("p", { class: "muted small-text" }, tool.description),
  );
}

function facts(pairs) {
  const kept = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl", { class: "facts" }, kept.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function optionText(model) {
  const mark = modelMark(model);
  const words = [mark ? mark.plain : "no tools", model.validation?.stale && "stale"].filter(Boolean).join(", ");
  return [model.name || model.model || model.id, model.default && "(default)", words && `· ${words}`].filter(Boolean).join(" ");
}

function countOf(status) {
  return h("span", { class: "muted small-text" }, `${status.success_count} of ${status.test_count} passed, last `, when(status.last_tested));
}

function grouped(list) {
  const groups = new Map();
  for (const one of list) groups.set(one.llm, [...(groups.get(one.llm) || []), one]);
  return groups;
}
