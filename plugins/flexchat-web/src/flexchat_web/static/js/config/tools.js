// The section Tools: ready-made tools to switch on, own ones to edit, and settings for all.

import { h, keyed, replace } from "../dom.js";
import { button, iconButton, badge, alert, errorCard } from "../elements.js";
import { get } from "../api.js";
import { toast } from "../dialog.js";
import { entryForm } from "./entry_form.js";
import { foldCard } from "./fold_card.js";
import { problemMarks, sentencesAt } from "./marks.js";

const REGISTRY = ["tools", "registry"];
const NEW_TOOL = {
  description: "What the tool does, for the model.",
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  implementation: { type: "mock", mock_response: { answer: "fixed" } },
};

/** Return the section: { node, update }. */
export function toolsSection(draft) {
  const ready = h("ul", { class: "ready-tools" });
  const own = h("div", { class: "stack tight" });
  const none = h("p", { class: "muted" }, "None yet.");
  const add = button("Add a tool of your own", { icon: "plus", disabled: !draft.editable, onClick: () => addOwn() });
  const all = foldCard({ title: "All tools", body: () => settings() });
  const node = h("div", { class: "stack" }, all.node, h("h3", {}, "Ready-made"), ready, h("h3", {}, "Your own"), own, none, h("div", {}, add));
  const cards = new Map();
  let offered = [];

  const registry = () => draft.at(REGISTRY) || [];
  const isOwn = (tool) => Boolean(tool?.implementation || !offered.some((one) => one.name === tool?.name));

  load();
  async function load() {
    try {
      offered = (await get("api/tools/available")).tools;
      update("data");
    } catch (error) {
      replace(ready, h("li", {}, errorCard(error, { retry: load })));
    }
  }

  function update(what) {
    const { registry: given, ...rest } = draft.at(["tools"]) || {};
    all.head({ title: "All tools", summary: Object.entries(rest).map(setting).join(", ") || "as by default", marks: [] });
    all.update(what);
    keyed(ready, offered, (tool) => tool.name, readyRow, (row, tool) => row.refresh(tool));
    const mine = registry().map((tool, index) => ({ tool, index })).filter(({ tool }) => isOwn(tool));
    none.hidden = mine.length > 0;
    const keys = new Set(mine.map(({ index }) => String(index)));
    for (const key of cards.keys()) if (!keys.has(key)) cards.delete(key);
    keyed(own, mine, ({ index }) => index, ({ index }) => makeOwn(index).node);
    for (const { index } of mine) {
      cards.get(String(index)).head(head(index));
      cards.get(String(index)).update(what);
    }
  }

  function readyRow(tool) {
    const box = h("input", { type: "checkbox", role: "switch", class: "switch", disabled: !draft.editable, onChange: () => turn(tool.name, box.checked) });
    const marks = h("span", { class: "row" });
    const row = h("li", {}, h("label", { class: "ready-tool" }, box, h("span", { class: "ready-text" }, h("span", { class: "mono" }, tool.name), h("span", { class: "muted small-text" }, tool.description)), marks));
    row.refresh = () => {
      const index = registry().findIndex((one) => one?.name === tool.name);
      box.checked = index >= 0;
      replace(marks, index >= 0 && isOwn(registry()[index]) && badge("your own"), index >= 0 && problemMarks(draft, [...REGISTRY, index]));
    };
    row.refresh();
    return row;
  }

  async function turn(name, on) {
    const index = registry().findIndex((one) => one?.name === name);
    if (on && index < 0) await draft.change([{ path: REGISTRY, insert: { name } }]);
    else if (!on && index >= 0) await draft.change([{ path: [...REGISTRY, index], remove: true }]);
    update("data");
  }

  function head(index) {
    const tool = registry()[index] || {};
    return { title: tool.name || "no name", summary: tool.description || "", marks: [badge(tool.implementation?.type || "no implementation"), ...problemMarks(draft, [...REGISTRY, index])] };
  }

  function makeOwn(index) {
    const remove = iconButton("trash", `Delete tool ${index + 1}`, () => dropOwn(index), { disabled: !draft.editable });
    const card = foldCard({ ...head(index), actions: [remove], body: () => ownBody(index) });
    cards.set(String(index), card);
    return card;
  }

  function ownBody(index) {
    const path = [...REGISTRY, index];
    const schema = { $ref: "#/$defs/ToolEntry" };
    const json = (part) => ({ description: part?.description });
    const adapt = (whole) => ({ ...whole, properties: { ...whole.properties, parameters: json(whole.properties.parameters) } });
    const first = ["name", "description", "parameters", "implementation"];
    const wrong = h("div", {});
    const main = entryForm(draft, path, schema, { keys: first, adapt });
    const more = entryForm(draft, path, schema, { keys: (whole) => Object.keys(whole.properties).filter((key) => !first.includes(key)) });
    const change = (what) => {
      main.update(what);
      more.update(what);
      replace(wrong, sentencesAt(draft, path).map((text) => alert("bad", h("p", {}, text))));
    };
    change("problems");
    return { node: h("div", { class: "stack" }, wrong, main.node, h("details", { class: "more-settings" }, h("summary", {}, "More settings"), more.node)), update: change };
  }

  function settings() {
    return entryForm(draft, ["tools"], { $ref: "#/$defs/ToolsTable" }, { keys: (whole) => Object.keys(whole.properties).filter((key) => key !== "registry") });
  }

  async function addOwn() {
    const taken = new Set([...registry().map((one) => one?.name), ...offered.map((one) => one.name)]);
    let name = "my_tool";
    for (let number = 2; taken.has(name); number += 1) name = `my_tool_${number}`;
    const index = registry().length;
    if (await draft.change([{ path: REGISTRY, insert: { name, ...NEW_TOOL } }])) {
      const card = cards.get(String(index));
      if (card) {
        card.open = true;
        card.toggle.focus();
      }
    }
  }

  async function dropOwn(index) {
    const before = draft.text;
    const { name } = registry()[index];
    for (const card of cards.values()) card.open = false;
    if (await draft.change([{ path: [...REGISTRY, index], remove: true }])) toast(`${name} is deleted from the text.`, { action: ["Undo", () => draft.restore(before)], seconds: 8 });
  }

  return { node, update, reveal: (path) => (path[1] === "registry" ? cards.get(String(path[2])) && (cards.get(String(path[2])).open = true) : (all.open = true)) };
}

/** Format a setting for a card's head: the name of a table, the number of tables in a list. */
function setting([key, value]) {
  if (Array.isArray(value)) return value.some((one) => one && typeof one === "object") ? `${value.length} ${key}` : `${key} = ${value.join(", ")}`;
  return value && typeof value === "object" ? key : `${key} = ${value}`;
}
