// A form made from a JSON Schema.
//   const form = schemaForm(schema, { value, onChange(value, path, part) {…}, disabled: false, root: schema });
//   place.append(form.node);
//   form.value                  the entered values; keys without one are absent
//   form.set(value)             show another value (rebuilds the fields)
//   form.validate()             problems [{path, text}], each shown at its field; the first one gets the focus
//   form.showProblems(list)     show a server's problems ({path: "llms.x.model" or "responses[0].match", text}) at
//                               their fields; returns those that no field could show
//   form.focus("responses[0].llm")
// onChange's path is a list (["llms", "x", "model"]); part is the value there, undefined if it was removed.
// root is the schema $refs point into. raw: true adds a switch between fields and JSON text.
// Optional fields start empty and are left out of the value; a default is shown as the placeholder.

import { h, replace, uid } from "./dom.js";
import { editorOf, rawEditor } from "./schema_editors.js";
import { clear, show } from "./schema_field.js";
import { pathText } from "./schema.js";

/** Return a form for a value that fits a schema. */
export function schemaForm(schema, { value, onChange = () => {}, disabled = false, root = schema, raw = false } = {}) {
  const fields = new Map(); // path text → record of field(): { wrap, note, controls, focus, flaw }
  const context = { root, disabled, fields, changed };
  const place = h("div", { class: "schema-form-fields" });
  let editor;
  let asText = false;
  const node = h("div", { class: "schema-form" }, raw && modes(), place);

  function build(start) {
    fields.clear();
    editor = asText ? rawEditor(schema, [], start, context) : editorOf(schema, [], start, context, true);
    replace(place, editor.node);
  }

  function changed(path) {
    for (let end = path.length; end >= 0; end -= 1) clear(fields.get(pathText(path.slice(0, end))));
    const whole = editor.get();
    onChange(whole, path, path.reduce((part, key) => part?.[key], whole));
  }

  function modes() {
    const group = uid("mode");
    const choice = (text, on) =>
      h("label", {}, h("input", { type: "radio", name: group, checked: on === asText, class: "visually-hidden", onChange: () => turn(on) }), h("span", {}, text));
    return h("fieldset", { class: "segmented" }, h("legend", { class: "visually-hidden" }, "Fill in as"), choice("Fields", false), choice("JSON", true));
  }

  function turn(on) {
    const kept = editor.get();
    asText = on;
    build(kept);
  }

  build(value);
  return {
    node,
    get value() {
      return editor.get();
    },
    set(other) {
      build(other);
    },
    validate() {
      const problems = [];
      for (const [path, field] of fields) {
        if (!field.wrap.isConnected && node.isConnected) continue;
        const text = field.flaw();
        if (text) problems.push({ path, text });
        else clear(field);
      }
      for (const { path, text } of problems) show(fields.get(path), text);
      if (problems.length) fields.get(problems[0].path).focus();
      return problems;
    },
    showProblems(list) {
      for (const field of fields.values()) clear(field);
      return list.filter(({ path, text }) => {
        const field = nearest(fields, path || "");
        if (field) show(field, text);
        return !field;
      });
    },
    focus(path) {
      nearest(fields, path)?.focus();
    },
  };
}

function nearest(fields, path) {
  for (let at = path; at; at = at.replace(/(\.[^.[\]]*|\[[^\]]*\]|^[^.[\]]+)$/, "")) {
    if (fields.has(at)) return fields.get(at);
    if (!/[.[]/.test(at)) return undefined;
  }
  return undefined;
}
