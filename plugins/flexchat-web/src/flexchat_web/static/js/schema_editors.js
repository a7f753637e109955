// The editors for each kind of value in a form made from a schema.

import { h, icon, replace, uid } from "./dom.js";
import { button, iconButton } from "./elements.js";
import { field, requiredMark } from "./schema_field.js";
import { asChoices, emptyOf, flaw, labelOf, pathText, resolved, typesOf } from "./schema.js";

// An editor is { node, get }; required is true, false, or "entry": required like every item of a list.
// get() -> value or undefined. The outermost one shows no label of its own.

/** Return the editor of a value that fits a schema. */
export function editorOf(given, path, value, context, required) {
  const schema = asChoices(resolved(given, context.root), context.root);
  if ("const" in schema) return { node: h("code", { class: "constant" }, JSON.stringify(schema.const)), get: () => schema.const };
  if (schema.enum) return choiceEditor(schema, path, value, context, required);
  const variants = schema.anyOf || schema.oneOf;
  if (variants) return variantEditor(schema, variants, path, value, context, required);
  const types = typesOf(schema);
  if (types.length > 1) {
    return variantEditor(schema, types.map((type) => ({ ...schema, type })), path, value, context, required);
  }
  switch (types[0]) {
    case "boolean":
      return choiceEditor({ ...schema, enum: [true, false] }, path, value, context, required);
    case "integer":
    case "number":
    case "string":
      return textEditor(schema, types[0], path, value, context, required);
    case "array":
      return arrayEditor(schema, path, value, context, required);
    case "object":
      return objectEditor(schema, path, value, context, required);
    default:
      return rawEditor(schema, path, value, context, required);
  }
}

function textEditor(schema, type, path, value, context, required) {
  const long = type === "string" && isLong(schema, path);
  const secret = schema.writeOnly || schema.format === "password";
  const hint = schema.default !== undefined ? String(schema.default) : schema.examples?.length ? `for example ${schema.examples[0]}` : "";
  const control = h(long ? "textarea" : "input", {
    class: "input",
    type: long ? null : secret ? "password" : "text",
    rows: long ? 3 : null,
    inputmode: type === "integer" ? "numeric" : type === "number" ? "decimal" : null,
    autocomplete: "off",
    spellcheck: long ? "true" : "false",
    placeholder: hint,
    value: value === undefined || value === null ? "" : String(value),
    onInput: () => context.changed(path),
  });
  const read = () => {
    if (control.value === "") return undefined;
    if (type === "string") return control.value;
    const number = Number(control.value);
    return control.value.trim() && !Number.isNaN(number) ? number : control.value;
  };
  return field(schema, path, control, { context, required, get: read });
}

function isLong(schema, path) {
  if (schema.format || schema.pattern) return false;
  return (schema.maxLength || 0) > 200 || /^(prompt|system_prompt|text|content|body|code|instructions|description)$/.test(String(path.at(-1)));
}

function choiceEditor(schema, path, value, context, required) {
  const options = schema.enum;
  const at = options.findIndex((option) => JSON.stringify(option) === JSON.stringify(value));
  const unset = schema.default !== undefined ? `default (${called(schema, schema.default)})` : required ? "choose…" : "not set";
  const control = h(
    "select",
    { class: "input", onChange: () => context.changed(path), value: at < 0 ? "" : String(at) },
    h("option", { value: "" }, unset),
    options.map((option, index) => h("option", { value: String(index) }, called(schema, option))),
  );
  const get = () => (control.value === "" ? undefined : options[Number(control.value)]);
  return field(schema, path, control, { context, required, get });
}

/** Return the label of a choice: its title, if it has one. */
function called(schema, option) {
  return schema.titles?.[schema.enum.indexOf(option)] || say(option);
}

function say(value) {
  return value === true ? "yes" : value === false ? "no" : typeof value === "string" ? value : JSON.stringify(value);
}

function variantEditor(schema, variants, path, value, context, required) {
  const choices = variants.map((one) => resolved(one, context.root)).filter((one) => typesOf(one)[0] !== "null");
  const shared = { title: schema.title, description: schema.description, default: schema.default };
  if (choices.length === 1) return editorOf({ ...shared, ...choices[0] }, path, value, context, required);
  const group = uid("variant");
  const body = h("div", {});
  let chosen = Math.max(0, choices.findIndex((one) => value !== undefined && !flaw(value, one, true)));
  let inner;
  const build = (start) => {
    inner = editorOf({ ...shared, ...choices[chosen] }, path, start, context, required);
    replace(body, inner.node);
  };
  const pick = (index) => {
    chosen = index;
    build(undefined);
    context.changed(path);
  };
  const switcher = h(
    "fieldset",
    { class: "segmented small" },
    h("legend", { class: "visually-hidden" }, `Kind of ${labelOf(path, schema)}`),
    choices.map((one, index) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: group, checked: index === chosen, disabled: context.disabled, class: "visually-hidden", onChange: () => pick(index) }),
        h("span", {}, one.title || typesOf(one)[0] || (one.enum ? "choice" : `form ${index + 1}`)),
      ),
    ),
  );
  build(value);
  return { node: h("div", { class: "variant" }, switcher, body), get: () => inner.get() };
}

function objectEditor(schema, path, value, context, required) {
  const properties = Object.entries(schema.properties || {});
  const others = schema.additionalProperties;
  const open = typeof others === "object" && others !== null;
  if (!properties.length && !open) {
    // The whole form: an object without described properties has no fields.
    const nothing = others === false || (!path.length && others !== true && !schema.patternProperties);
    return nothing ? { node: h("p", { class: "field-hint" }, "There is nothing to fill in."), get: () => value ?? {} } : rawEditor(schema, path, value, context, required);
  }
  const mustHave = new Set(schema.required || []);
  const editors = new Map();
  const list = h("div", { class: "field-list" });
  const fill = () => {
    const ordered = [...properties].sort(([a], [b]) => mustHave.has(b) - mustHave.has(a));
    for (const [name, part] of ordered) {
      const made = editorOf(part, [...path, name], value?.[name], context, mustHave.has(name));
      editors.set(name, made);
      list.append(made.node);
    }
    if (open) list.append(mapEditor(schema, others, properties, path, value, context, editors));
  };
  const known = new Set(properties.map(([name]) => name));
  const kept = Object.entries(value || {}).filter(([name]) => !known.has(name) && !open); // keys that are not in the schema
  const get = () => {
    if (!editors.size) return value;
    const found = Object.fromEntries([...[...editors].map(([name, one]) => [name, one.get()]), ...kept].filter(([, part]) => part !== undefined));
    return required || value !== undefined || Object.keys(found).length ? found : undefined;
  };
  if (!path.length) {
    fill();
    return { node: list, get };
  }
  // Built when opened: a schema may be recursive.
  const started = required || value !== undefined;
  const heading = [h("span", { class: "field-name" }, labelOf(path, schema)), required === true && requiredMark()];
  const node = h(
    "details",
    { class: "field-group", open: started, onToggle: () => node.open && !editors.size && fill() },
    h("summary", {}, icon("right"), heading),
    schema.description && h("p", { class: "field-hint" }, schema.description),
    list,
  );
  if (started) fill();
  return { node, get };
}

/** The entries of an object with arbitrary keys. */
function mapEditor(schema, part, properties, path, value, context, editors) {
  const known = new Set(properties.map(([name]) => name));
  const list = h("div", { class: "field-list" });
  const add = (name, start) => {
    const made = editorOf(part, [...path, name], start, context, "entry");
    editors.set(name, made);
    const row = h("div", { class: "list-item" }, h("div", { class: "list-item-body" }, made.node));
    if (!context.disabled) {
      row.append(
        h("div", { class: "list-item-actions" }, iconButton("trash", `Remove ${name}`, () => {
          editors.delete(name);
          row.remove();
          context.changed([...path, name]);
        })),
      );
    }
    list.append(row);
  };
  for (const [name, start] of Object.entries(value || {})) if (!known.has(name)) add(name, start);
  const input = h("input", { class: "input", type: "text", "aria-label": `Name of a new entry of ${labelOf(path, schema)}`, placeholder: "name" });
  const adder = button("Add", {
    icon: "plus",
    kind: "small",
    onClick: () => {
      const name = input.value.trim();
      if (!name || editors.has(name)) return input.focus();
      input.value = "";
      add(name, emptyOf(resolved(part, context.root)));
      context.changed([...path, name]);
    },
  });
  return h("div", { class: "field-map" }, list, !context.disabled && h("div", { class: "row" }, input, adder));
}

function arrayEditor(schema, path, value, context, required) {
  const part = asChoices(resolved(schema.items === undefined || schema.items === true ? {} : schema.items, context.root), context.root);
  if (part.enum && schema.uniqueItems !== false) return checkboxEditor(schema, part, path, value, context, required);
  const items = [...(Array.isArray(value) ? value : [])];
  let touched = value !== undefined;
  let editors = [];
  const list = h("div", { class: "field-list" });
  const now = () => editors.map((one) => one.get());
  const rebuild = (next) => {
    touched = true;
    for (const key of [...context.fields.keys()]) if (key.startsWith(`${pathText(path)}[`)) context.fields.delete(key);
    build(next);
    context.changed(path);
  };
  const build = (values) => {
    editors = values.map((item, index) => editorOf(part, [...path, index], item, context, "entry"));
    replace(
      list,
      editors.map((one, index) =>
        h(
          "div",
          { class: "list-item" },
          h("div", { class: "list-item-body" }, one.node),
          !context.disabled &&
            h(
              "div",
              { class: "list-item-actions" },
              iconButton("up", `Move entry ${index + 1} up`, () => rebuild(moved(now(), index, index - 1)), { disabled: index === 0 }),
              iconButton("down", `Move entry ${index + 1} down`, () => rebuild(moved(now(), index, index + 1)), { disabled: index === editors.length - 1 }),
              iconButton("trash", `Remove entry ${index + 1}`, () => rebuild(now().filter((_, at) => at !== index))),
            ),
        ),
      ),
    );
  };
  build(items);
  const add = button(`Add to ${labelOf(path, schema)}`, {
    icon: "plus",
    kind: "small",
    onClick: () => {
      rebuild([...now(), emptyOf(part)]);
      list.lastElementChild?.querySelector("input, select, textarea")?.focus();
    },
  });
  const get = () => (touched || required ? now() : undefined);
  return field(schema, path, h("div", { class: "array-editor" }, list, !context.disabled && add), {
    context,
    required,
    get,
    focus: () => (list.querySelector("input, select, textarea") || add).focus(),
  });
}

function moved(values, from, to) {
  const next = [...values];
  next.splice(to, 0, ...next.splice(from, 1));
  return next;
}

function checkboxEditor(schema, part, path, value, context, required) {
  let touched = value !== undefined;
  const boxes = part.enum.map((option) =>
    h("input", {
      type: "checkbox",
      checked: Array.isArray(value) && value.includes(option),
      onChange: () => {
        touched = true;
        context.changed(path);
      },
    }),
  );
  const control = h("div", { class: "checks" }, boxes.map((box, index) => h("label", { class: "check" }, box, h("span", {}, called(part, part.enum[index])))));
  const get = () => (touched || required ? part.enum.filter((_, index) => boxes[index].checked) : undefined);
  return field(schema, path, control, { context, required, get });
}

/** JSON text for what no field can show. */
export function rawEditor(schema, path, value, context, required) {
  const control = h("textarea", {
    class: "input mono",
    rows: path.length ? 3 : 8,
    spellcheck: "false",
    autocomplete: "off",
    value: value === undefined ? "" : JSON.stringify(value, null, 2),
    onInput: () => context.changed(path),
  });
  const parse = () => {
    if (!control.value.trim()) return undefined;
    try {
      return JSON.parse(control.value);
    } catch (error) {
      return new SyntaxError(error.message);
    }
  };
  let last = value; // the value while the text cannot be parsed
  const get = () => {
    const parsed = parse();
    if (!(parsed instanceof Error)) last = parsed;
    return last;
  };
  return field(schema, path, control, { context, required, get, read: parse });
}
