// The sections LLMs and Document stores: entries by name, each with its settings and a test of the connection.

import { h, keyed, replace, uid } from "../dom.js";
import { button, iconButton, alert, busy } from "../elements.js";
import { get, post, ApiError } from "../api.js";
import { openDialog, confirmed, toast } from "../dialog.js";
import { entryForm } from "./entry_form.js";
import { foldCard } from "./fold_card.js";
import { problemMarks, sentencesAt } from "./marks.js";
import { at, same } from "./paths.js";

const FIRST = {
  llms: ["provider", "default_model", "base_url", "api_key", "description"],
  stores: ["provider", "description", "path", "url", "dsn", "collection", "embedding"],
};
const KINDS = {
  llms: { type: "llm", article: "an", noun: "LLM", schema: "LLMEntry", lead: "What runs the models. In the text: ", none: "No LLM yet: without one, nothing can answer." },
  stores: { type: "rag", article: "a", noun: "document store", schema: "StoreEntry", lead: "Where documents are searched (RAG). In the text: ", none: "No document store: answers come from the model alone." },
};

/** Return a section: { node, update }. place: "llms" or "stores". */
export function entriesSection(draft, place) {
  const kind = KINDS[place];
  const cards = new Map();
  const list = h("div", { class: "stack tight" });
  const none = h("p", { class: "muted" }, kind.none);
  const add = button(`Add ${kind.article} ${kind.noun}`, { icon: "plus", disabled: !draft.editable, onClick: () => addEntry(draft, place, kind, cards) });
  const node = h("div", { class: "stack" }, h("p", { class: "muted" }, kind.lead, h("code", {}, place), "."), list, none, h("div", {}, add));

  function update(what) {
    const names = Object.keys(draft.at([place]) || {});
    none.hidden = names.length > 0;
    for (const name of cards.keys()) if (!names.includes(name)) cards.delete(name);
    keyed(list, names, (name) => name, (name) => make(name).node);
    for (const name of names) {
      cards.get(name).head(head(name));
      cards.get(name).update(what);
    }
  }

  function head(name) {
    const entry = draft.at([place, name]) || {};
    return { title: name, summary: [entry.provider, entry.default_model || entry.description].filter(Boolean).join(" · "), marks: problemMarks(draft, [place, name]) };
  }

  function make(name) {
    const remove = iconButton("trash", `Delete ${name}`, () => removeEntry(draft, place, name), { disabled: !draft.editable });
    const card = foldCard({ ...head(name), actions: [remove], body: () => body(name) });
    cards.set(name, card);
    return card;
  }

  function body(name) {
    const path = [place, name];
    const schema = { $ref: `#/$defs/${kind.schema}` };
    const first = entryForm(draft, path, schema, { keys: (whole) => [...FIRST[place], ...(whole.required || [])].filter(unique) });
    const shown = (whole) => new Set([...FIRST[place], ...(whole.required || [])]);
    const more = entryForm(draft, path, schema, { keys: (whole) => Object.keys(whole.properties).filter((key) => !shown(whole).has(key)) });
    const wrong = h("div", {});
    const outcome = h("div", { class: "stack tight", "aria-live": "polite" });
    const test = button("Test connection", { icon: "play", kind: "small", onClick: () => tryOut(draft, place, name, kind, test, outcome) });
    const update = (what) => {
      first.update(what);
      more.update(what);
      replace(wrong, sentencesAt(draft, path).map((text) => alert("bad", h("p", {}, text))));
    };
    update("problems");
    return { node: h("div", { class: "stack" }, wrong, first.node, h("details", { class: "more-settings" }, h("summary", {}, "More settings"), more.node), h("div", { class: "row" }, test), outcome), update };
  }

  update("data");
  return { node, update, reveal: (path) => path.length > 1 && cards.get(path[1]) && (cards.get(path[1]).open = true) };
}

const unique = (value, index, all) => all.indexOf(value) === index;

async function tryOut(draft, place, name, kind, node, outcome) {
  const entry = draft.at([place, name]);
  const { provider, ...config } = entry;
  // Saved entries are tested by name: their secrets are never sent to the page.
  const saved = !draft.changed || same(at(draft.savedData, [place, name]), entry);
  try {
    const answer = await busy(node, post("api/connections/test", saved ? { name } : { type: kind.type, provider, config }));
    replace(outcome, alert("ok", h("p", {}, `${answer.message} (${answer.elapsed_ms} ms)`)), kind.type === "llm" && (await models(draft, place, name)));
  } catch (error) {
    const message = error instanceof ApiError ? error.problem.message || error.message : String(error);
    replace(outcome, alert("bad", h("p", {}, h("strong", {}, "No connection. "), message)));
  }
}

async function models(draft, place, name) {
  try {
    const found = (await get("api/models/list")).models.filter((one) => one.llm === name);
    if (!found.length || !draft.editable) return null;
    const id = uid("models");
    const select = h("select", { id, class: "input", value: draft.at([place, name, "default_model"]) || "", onChange: () => draft.change([{ path: [place, name, "default_model"], value: select.value }]) }, h("option", { value: "", disabled: true }, "choose…"), found.map((one) => h("option", { value: one.model }, one.name || one.model)));
    return h("div", { class: "field" }, h("label", { for: id }, "Take one of its models as default_model"), select);
  } catch {
    return null;
  }
}

async function removeEntry(draft, place, name) {
  const users = place === "llms" ? (draft.at(["responses"]) || []).filter((rule) => rule?.llm === name).length : 0;
  const sure = !users || (await confirmed({ title: `Delete ${name}?`, text: `${users === 1 ? "A rule uses" : `${users} rules use`} it and will not work without it.`, action: "Delete", danger: true }));
  if (!sure) return;
  const before = draft.text;
  if (await draft.change([{ path: [place, name], remove: true }])) toast(`${name} is deleted from the text.`, { action: ["Undo", () => draft.restore(before)], seconds: 8 });
}

async function addEntry(draft, place, kind, cards) {
  let offered = [];
  try {
    offered = (await get("api/connections/providers"))[kind.type];
  } catch (error) {
    toast(error.message, { kind: "bad" });
    return;
  }
  const ids = [uid("kind"), uid("name")];
  const taken = Object.keys(draft.at([place]) || {});
  const free = (wanted) => (taken.includes(wanted) ? free(`${wanted}-2`) : wanted);
  const told = h("p", { class: "field-hint" });
  const wrong = h("p", { class: "field-problem", "aria-live": "polite" });
  const select = h("select", { id: ids[0], class: "input", onChange: () => chosen() }, offered.map((one) => h("option", { value: one.name }, one.name)));
  const input = h("input", { id: ids[1], class: "input", type: "text", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { id: uid("add"), class: "stack" }, h("div", { class: "field" }, h("label", { for: ids[0] }, "Kind"), select, told), h("div", { class: "field" }, h("label", { for: ids[1] }, "Name"), h("p", { class: "field-hint" }, "Rules and results refer to it; it cannot be changed here later."), input, wrong));
  const chosen = () => {
    told.textContent = offered.find((one) => one.name === select.value)?.summary || "";
    input.value = free(select.value);
  };
  chosen();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = input.value.trim();
    wrong.textContent = !/^[\w-]+$/.test(name) ? "Letters, digits, _ and - only." : taken.includes(name) ? "There is one of this name." : "";
    if (wrong.textContent) {
      input.focus();
      return;
    }
    dialog.close();
    if (await draft.change([{ path: [place, name], value: { provider: select.value } }])) {
      const card = cards.get(name);
      if (card) card.open = true;
      card?.toggle.focus();
    }
  });
  const dialog = openDialog({ title: `Add ${kind.article} ${kind.noun}`, content: form, actions: [button("Cancel", { onClick: () => dialog.close() }), button("Add", { kind: "primary", type: "submit", form: form.id })] });
  select.focus();
}
