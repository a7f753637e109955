// Tools: those that models may call, how services accept them, and a form to call one.

import { waiting } from "../activity/waiting.js";
import { sourcesView } from "../tool_sources.js";
import { onReturn } from "../attention.js";
import { announce, h, icon, keyed, replace } from "../dom.js";
import { alert, badge, busy, button, counted, emptyState, errorCard, money, ms, pageHead } from "../elements.js";
import { get, newId, post, uiConfig } from "../api.js";
import { confirmed, openDialog } from "../dialog.js";
import { jsonView, codeView } from "../json_view.js";
import { schemaForm } from "../schema_form.js";
import { isOnlyMedia, mediaView, toolError } from "../tool_call.js";
import { ruleName } from "../rule_labels.js";
import { EFFECTS, effectOfTool, parametersView } from "../tool_definition.js";

export const title = "Tools";

const DOUBLE_CLICK_MS = 600;
const DONE = {
  look: (name) => `The tools of ${name} were read.`,
  restart: (name) => `${name} was started.`,
  accept: (name) => `Accepted from ${name}.`,
};
const LINT = { accepted: ["ok", "check"], rewritten: ["", "pencil"], refused: ["bad", "failed"] };

export async function mount(root) {
  const grid = h("div", { class: "card-grid" });
  const none = h("p", { class: "muted", role: "status" });
  const search = h("input", { class: "input", type: "search", "aria-label": "Search tools", placeholder: "Search by name or description", onInput: () => show() });
  const told = h("div", { class: "stack" });
  const sources = sourcesOfTools(() => load());
  let tools = [];
  let findings = new Map(); // tool → findings
  let tokens = new Map(); // tool → tokens
  let loads = 0;

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = tools.filter((tool) => words.every((word) => `${tool.name} ${tool.description} ${tool.type} ${tool.source || ""}`.toLowerCase().includes(word)));
    keyed(grid, found, (tool) => tool.name, (tool) => card(tool, findings.get(tool.name) || [], tokens.get(tool.name)));
    none.textContent = found.length ? "" : "No tool has these words.";
  }

  async function load() {
    const now = (loads += 1);
    const [list, available, , cost] = await Promise.all([
      get("api/tools/list"),
      get("api/tools/available").catch(() => ({ tools: [] })),
      sources.load(),
      get("api/tools/cost").catch(() => ({ rules: [] })),
    ]);
    if (now !== loads) return;
    tools = list.tools;
    tokens = new Map(cost.rules.flatMap((rule) => rule.tools.map((one) => [one.tool, one.tokens])));
    replace(grid);
    if (!tools.length) {
      replace(told, sources.node, noTools(list, available));
      return;
    }
    replace(
      told,
      h(
        "div",
        { class: "spread" },
        h("div", { class: "search tools-search" }, icon("search"), search),
        h("p", { class: "muted small-text" }, `${counted(list.count, "tool")} · at most ${list.max_iterations} rounds in a turn`),
      ),
      sources.node,
      priceView(cost),
      none,
      grid,
    );
    show();
    lint(now);
  }

  async function lint(now) {
    const found = await get("api/tools/lint").catch(() => null);
    if (!found || now !== loads) return;
    findings = Map.groupBy ? Map.groupBy(found.findings, (one) => one.tool) : grouped(found.findings);
    for (const node of grid.children) replace(node.querySelector(".tool-lint"), lintView(findings.get(node.dataset.key) || []));
  }

  root.append(pageHead(title, "What models may call while they answer. Try one by hand, and see what each service does with it."), told);
  await load();
  return { unmount: onReturn(() => document.querySelector("dialog[open]") || sources.load()) };
}

/** The sources: { node, load }. changed(): called when their tools may have changed. */
function sourcesOfTools(changed) {
  const node = h("div", {});
  const notes = new Map(); // source → the error of the last button pressed
  let data = { sources: [] };
  let shown = "";
  let mayEdit = false;

  async function load() {
    const [now, server] = await Promise.all([get("api/tools/sources").catch(() => data), uiConfig()]);
    data = now;
    mayEdit = !server.read_only;
    render();
  }

  function render() {
    const now = JSON.stringify([data, [...notes]]);
    if (now === shown) return; // keeps unfolded details open
    shown = now;
    replace(node, sourcesView(data, { mayEdit, notes, act }));
    node.hidden = !data.sources.length;
  }

  async function act(source, name, pressed, body = null) {
    notes.delete(source.name);
    try {
      await busy(pressed, post(`api/tools/sources/${encodeURIComponent(source.name)}/${name}`, body));
      announce(DONE[name](source.name));
    } catch (error) {
      notes.set(source.name, error.message);
    }
    shown = "";
    await changed().catch(() => {}); // the server cannot be reached: already reported
    render();
    const ready = [...node.querySelectorAll('[data-press^="accept"]')]; // a second click was meant for the previous buttons
    for (const one of ready) one.disabled = true;
    setTimeout(() => ready.forEach((one) => (one.disabled = false)), DOUBLE_CLICK_MS);
    const again = [...node.querySelectorAll("article")].find((card) => card.querySelector("h2").textContent === source.name);
    const same = [...(again?.querySelectorAll("[data-press]") || [])].find((one) => one.dataset.press === pressed.dataset.press && !one.disabled);
    (same || again?.querySelector("h2"))?.focus({ preventScroll: true });
  }

  return { node, load };
}

function noTools(list, available) {
  return emptyState(
    list.enabled ? "No tools yet" : "Tools are switched off",
    h("p", {}, list.enabled ? "The configuration names none, or none is accepted." : "The configuration's table [tools] says so, or there is none."),
    available.tools.length > 0 && h("p", {}, "Ready to be switched on: ", available.tools.map((tool, at) => [at ? ", " : "", h("code", {}, tool.name)])),
    h("a", { class: "button", href: "#/config" }, icon("config"), "Open the configuration"),
  );
}

function grouped(all) {
  const found = new Map();
  for (const one of all) found.set(one.tool, [...(found.get(one.tool) || []), one]);
  return found;
}

function rangeOf(numbers) {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)].map((number) => number.toLocaleString("en"));
  return low === high ? low : `${low} to ${high}`;
}

/** The cost of each rule's tools in every request. */
function priceView(cost) {
  const rules = cost.rules.filter((rule) => rule.tools.length || rule.unsendable.length);
  if (!rules.length) return null;
  return h(
    "details",
    { class: "card tools-price" },
    h("summary", {}, icon("right"), `Price: about ${rangeOf(rules.map((rule) => rule.tokens))} tokens of every request${rules.length > 1 ? ", depending on its rule" : ""}`),
    h(
      "ul",
      {},
      rules.map((rule) =>
        h(
          "li",
          {},
          ruleName(rule.rule, rule.name),
          `: ${rule.tools.length} ${rule.tools.length === 1 ? "tool" : "tools"}, about ${rule.tokens.toLocaleString("en")} tokens as sent to ${rule.format}, ${money(rule.cost)}`,
          rule.tokens > cost.budget_tokens && [" ", badge(`over tools.budget_tokens, ${cost.budget_tokens.toLocaleString("en")}`, "warn")],
          rule.unsendable.length > 0 && [" ", badge(`${rule.format} cannot be sent ${rule.unsendable.join(", ")}`, "warn")],
        ),
      ),
    ),
    h("p", { class: "muted small-text" }, `An estimate: a token for every ${cost.bytes_per_token} bytes of JSON, at the price of what is not cached. Services count in their own ways.`),
  );
}

function card(tool, findings, tokens) {
  return h(
    "article",
    { class: "card tool-card", "aria-labelledby": `tool-${tool.name}` },
    h("header", { class: "tool-head" }, h("h2", { id: `tool-${tool.name}`, class: "mono" }, tool.name), h("div", { class: "row tight" }, badge(tool.implementation?.type || tool.type, "accent"), tool.source && badge(`from ${tool.source}`), effectOfTool(tool.effect))),
    h("p", { class: "tool-description" }, tool.description || "Says nothing about itself."),
    parametersView(tool.parameters),
    h("div", { class: "tool-lint" }, lintView(findings)),
    h("div", { class: "tool-actions" }, button("Try it", { icon: "play", kind: "small", "aria-label": `Try it: ${tool.name}`, onClick: () => tryOut(tool) }), tokens !== undefined && h("span", { class: "muted small-text" }, `about ${tokens.toLocaleString("en")} tokens`)),
  );
}

function lintView(findings) {
  if (!findings.length) return null;
  const refused = findings.filter((one) => one.status === "refused");
  const rewritten = findings.filter((one) => one.status === "rewritten");
  const word = refused.length
    ? badge(`${refused.length} of ${findings.length} services refuse it`, "bad", "failed")
    : badge(rewritten.length ? `all services take it, ${rewritten.length} rewritten` : "all services take it as it is", "ok", "check");
  return h(
    "details",
    { class: "lint" },
    h("summary", {}, icon("right"), word),
    h(
      "ul",
      { class: "lint-list" },
      findings.map((one) => {
        const notes = (one.notes || []).map((note) => (note.pointer ? `${note.pointer}: ${note.message}` : note.message));
        return h(
          "li",
          {},
          h("div", { class: "row tight" }, h("code", {}, one.dialect), badge(one.status, ...(LINT[one.status] || []))),
          one.sentence && h("p", {}, one.sentence),
          notes.length > 0 && h("ul", {}, notes.map((text) => h("li", {}, text))),
        );
      }),
    ),
  );
}

/** Open a dialog with a form for a tool's arguments. */
function tryOut(tool) {
  const form = schemaForm(tool.parameters || {}, { raw: true });
  const out = h("div", { class: "tool-result", "aria-live": "polite" });
  const run = button("Run", { icon: "play", kind: "primary", type: "submit", form: "try-tool" });
  const sheet = h("form", { id: "try-tool", novalidate: true }, form.node);
  let lost = null; // the call without a response: a repetition has its key, and does not run twice
  sheet.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.validate().length) return;
    if (tool.effect !== "read" && !(await confirmed({ title: `Run ${tool.name}?`, text: "It changes something, for real.", action: "Run" }))) return;
    replace(out);
    const body = { name: tool.name, arguments: form.value ?? {} };
    const asked = JSON.stringify(body);
    const key = lost?.asked === asked ? lost.key : newId();
    lost = { asked, key };
    try {
      replace(out, resultView(await busy(run, post("api/tools/call", body, { key }))));
      lost = null;
    } catch (error) {
      if (error.status) lost = null;
      replace(out, errorCard(error));
    }
    out.scrollIntoView({ block: "nearest" });
    waiting.look().catch(() => {}); // it may have left an unknown effect
  });
  const [, , meaning] = EFFECTS[tool.effect] || [];
  const dialog = openDialog({
    title: tool.name,
    wide: true,
    content: [h("p", { class: "muted" }, tool.description), tool.effect !== "read" && alert("warn", h("p", {}, meaning)), sheet, out],
    actions: [button("Close", { onClick: () => dialog.close() }), run],
  });
  sheet.querySelector(".field .input")?.focus();
}

function resultView(result) {
  return h(
    "section",
    { class: "stack tight", "aria-label": "Result" },
    h("div", { class: "row" }, result.success ? badge("succeeded", "ok", "ok") : badge("failed", "bad", "failed"), h("span", { class: "muted small-text" }, ms(result.execution_time_ms))),
    !result.success ? alert("bad", toolError(result)) : isOnlyMedia(result) ? null : typeof result.result === "string" ? codeView(result.result, { label: "result" }) : jsonView(result.result, { label: "result" }),
    mediaView(result),
    result.notes?.length > 0 && alert("", h("ul", {}, result.notes.map((note) => h("li", {}, note)))),
  );
}
