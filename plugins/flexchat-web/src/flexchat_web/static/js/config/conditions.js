// The conditions of a rule: field, comparison, value; all must hold.

import { h, replace, uid } from "../dom.js";
import { button, iconButton } from "../elements.js";
import { binding } from "./binding.js";
import { startsWith } from "./paths.js";

const WORDS = { "": "is", _contains: "contains", _regexp: "fits the pattern" };

/** Return an editor of a rule's match: { node, update }. */
export function conditionsEditor(draft, path) {
  const known = matchProperties(draft);
  const fields = Object.keys(known).filter((key) => !/_(contains|regexp)$/.test(key));
  const list = h("div", { class: "stack tight" });
  const none = h("p", { class: "field-hint" }, "No condition: this rule takes every message that reaches it.");
  const add = button("Add a condition", { icon: "plus", kind: "small", disabled: !draft.editable, onClick: () => append() });
  const legend = h("legend", {}, "Conditions, all of which must hold");
  const node = h("fieldset", { class: "field conditions" }, legend, none, list, h("div", {}, add));
  let rows = [];

  const read = () => {
    const filled = rows.filter((row) => row.value !== "" && row.value !== undefined);
    return filled.length ? Object.fromEntries(filled.map((row) => [row.field + row.how, row.value])) : undefined;
  };
  const write = (match) => {
    rows = Object.entries(match && typeof match === "object" ? match : {}).map(([key, value]) => ({ ...split(key), value }));
    build();
  };
  const bound = binding(draft, path, { read, write });

  function split(key) {
    const found = /^(.*?)(_contains|_regexp)?$/.exec(key);
    return { field: found[1], how: found[2] || "" };
  }

  function append() {
    const used = new Set(rows.map((row) => row.field + row.how));
    const [field, how] = fields.flatMap((name) => ["", "_contains", "_regexp"].map((one) => [name, one])).find(([name, one]) => name + one in known && !used.has(name + one)) || ["topic", ""];
    rows.push({ field, how, value: "" });
    build();
    list.lastElementChild?.querySelector("select")?.focus();
  }

  function build() {
    none.hidden = rows.length > 0;
    replace(list, rows.map((row, index) => rowNode(row, index)));
    problems();
  }

  function rowNode(row, index) {
    const changed = () => bound.changed();
    const again = () => {
      build();
      bound.changed();
    };
    const names = fields.includes(row.field) ? fields : [...fields, row.field];
    const field = h("select", { class: "input", "aria-label": `Condition ${index + 1}: field`, value: row.field, disabled: !draft.editable, onChange: () => ((row.field = field.value), (row.how = row.field + row.how in known ? row.how : ""), (row.value = ""), again()) }, names.map((name) => h("option", { value: name }, name)));
    const hows = Object.keys(WORDS).filter((how) => row.field + how in known || how === row.how);
    const how = h("select", { class: "input", "aria-label": `Condition ${index + 1}: comparison`, value: row.how, disabled: !draft.editable, onChange: () => ((row.how = how.value), again()) }, hows.map((one) => h("option", { value: one }, WORDS[one])));
    const note = h("p", { class: "field-problem", hidden: true });
    return h("div", { class: "condition", data: { name: row.field + row.how } }, field, how, valueInput(row, index, changed), iconButton("trash", `Remove condition ${index + 1}`, () => (rows.splice(index, 1), again()), { disabled: !draft.editable }), note);
  }

  function valueInput(row, index, changed) {
    const schema = known[row.field + row.how] || {};
    const label = `Condition ${index + 1}: value`;
    const options = schema.type === "boolean" ? [true, false] : schema.enum;
    if (options) {
      const at = options.indexOf(row.value);
      const select = h("select", { class: "input", "aria-label": label, value: String(at), disabled: !draft.editable, onChange: () => ((row.value = options[Number(select.value)]), changed()) }, h("option", { value: "-1", disabled: true }, "choose…"), options.map((one, place) => h("option", { value: String(place) }, one === true ? "yes" : one === false ? "no" : one)));
      return select;
    }
    const id = uid("known");
    const offered = row.how === "_regexp" ? [] : suggestions(draft, row.field);
    const input = h("input", { class: ["input", row.how === "_regexp" && "mono"], type: "text", "aria-label": label, value: String(row.value ?? ""), placeholder: row.how === "_regexp" ? "/pattern/i" : "", autocomplete: "off", spellcheck: "false", list: offered.length ? id : null, disabled: !draft.editable, title: schema.description, onInput: () => ((row.value = input.value), changed()) });
    return h("span", { class: "condition-value" }, input, offered.length > 0 && h("datalist", { id }, offered.map((one) => h("option", { value: one }))));
  }

  function problems() {
    for (const one of list.children) {
      const texts = draft.errors.filter((error) => startsWith(error.place, [...path, one.dataset.name])).map((error) => error.text);
      const note = one.querySelector(".field-problem");
      note.hidden = !texts.length;
      note.textContent = texts.join(" ");
      for (const control of one.querySelectorAll("input")) control.toggleAttribute("aria-invalid", texts.length > 0);
    }
  }

  write(draft.at(path));
  return { node, update: (what) => (what === "problems" ? problems() : bound.update()) };
}

/** Describe a rule's conditions. */
export function conditionText(match) {
  const parts = Object.entries(match && typeof match === "object" ? match : {}).map(([key, value]) => {
    const [, field, how = ""] = /^(.*?)(_contains|_regexp)?$/.exec(key);
    return `${field} ${how === "_regexp" ? "fits" : WORDS[how]} ${typeof value === "string" ? value : JSON.stringify(value)}`;
  });
  return parts.length ? parts.join(" and ") : "every message";
}

function matchProperties(draft) {
  return draft.schema.$defs?.ResponseRule?.properties?.match?.properties || {};
}

function suggestions(draft, field) {
  if (field === "intent") return Object.keys(draft.at(["intent", "detection"]) || {});
  if (field === "service") return Object.keys(draft.at(["stores"]) || {});
  if (field === "collection") return Object.values(draft.at(["stores"]) || {}).map((one) => one?.collection).filter(Boolean);
  return [];
}
