// A form for some keys of one table of the draft.
//   const form = entryForm(draft, ["llms", "x"], { $ref: … }, { keys: [...], adapt(schema, value) { … } });
//   form.node · form.update()      adapt may add choices and descriptions to the schema

import { h, replace } from "../dom.js";
import { schemaForm } from "../schema_form.js";
import { pathText } from "../schema.js";
import { effective, kindOf } from "./entry_schema.js";
import { binding } from "./binding.js";
import { pick, startsWith } from "./paths.js";

/** Return a form. keys: names, or a function (schema) → names. */
export function entryForm(draft, path, schema, { keys, adapt = (given) => given, disabled = !draft.editable } = {}) {
  const node = h("div", { class: "entry-form" });
  let form;
  let shown;
  let kind;
  let names = [];
  let bound;

  function build(value) {
    const whole = adapt(effective(draft.schema, schema, value), value);
    names = typeof keys === "function" ? keys(whole) : keys || Object.keys(whole.properties);
    names = names.filter((name) => name in whole.properties);
    const part = { ...whole, properties: Object.fromEntries(names.map((name) => [name, whole.properties[name]])), required: (whole.required || []).filter((name) => names.includes(name)), additionalProperties: false };
    kind = kindOf(value);
    shown = signature(part);
    form = schemaForm(part, { value: pick(value, names) || {}, root: draft.schema, disabled, onChange: () => bound.changed() });
    bound = binding(draft, path, { keys: names, read: () => form.value, write: (now) => form.set(now || {}) });
    replace(node, form.node);
    problems();
  }

  function problems() {
    const mine = draft.errors.filter((one) => startsWith(one.place, path) && names.includes(one.place[path.length]));
    form.showProblems(mine.map((one) => ({ path: pathText(one.place.slice(path.length)), text: one.text })));
  }

  function signature(part) {
    return JSON.stringify(part.properties);
  }

  build(draft.at(path));
  return {
    node,
    update(what) {
      if (what === "problems") {
        problems();
        return;
      }
      const value = draft.at(path);
      if (bound.pending && kindOf(value) === kind) return;
      const whole = adapt(effective(draft.schema, schema, value), value);
      const part = { properties: Object.fromEntries((typeof keys === "function" ? keys(whole) : keys || Object.keys(whole.properties)).filter((name) => name in whole.properties).map((name) => [name, whole.properties[name]])) };
      if (signature(part) !== shown) build(value);
      else bound.update();
    },
    focus: (place) => form.focus(pathText(place.slice(path.length))),
  };
}
