// A field of a form made from a schema: control, label, description, and error message.

import { h, uid } from "./dom.js";
import { flaw, labelOf, pathText } from "./schema.js";

/** A control with label, description, and error message. */
export function field(schema, path, control, { context, required, get, read = get, label = true, focus }) {
  const id = uid("field");
  const note = h("p", { class: "field-problem", id: `${id}-problem`, hidden: true, "aria-live": "polite" });
  const told = schema.description ? h("p", { class: "field-hint", id: `${id}-hint` }, schema.description) : null;
  const controls = control.matches("input, select, textarea") ? [control] : [...control.querySelectorAll("input")];
  const single = control.matches("input, select, textarea");
  const name = path.length ? labelOf(path, schema) : schema.title || "Value";
  if (single) control.id = id;
  for (const one of controls) {
    one.setAttribute("aria-describedby", [told && `${id}-hint`, `${id}-problem`].filter(Boolean).join(" "));
    if (required && single) one.setAttribute("aria-required", "true");
    one.disabled = context.disabled;
  }
  const heading = [h("span", { class: "field-name" }, name), required === true && path.length > 0 && requiredMark()];
  const wrap = single
    ? h("div", { class: "field" }, label && h("label", { for: id }, heading), told, control, note)
    : h("fieldset", { class: "field" }, h("legend", {}, heading), told, control, note);
  if (single && !label) control.setAttribute("aria-label", name);
  const entry = {
    wrap,
    note,
    controls,
    focus: focus || (() => controls[0]?.focus()),
    flaw: () => flaw(read(), schema, required),
  };
  context.fields.set(pathText(path), entry);
  const check = () => {
    const text = wrap.isConnected && entry.flaw();
    if (text && text !== "is required") show(entry, text);
  };
  control.addEventListener("focusout", () => released(check));
  return { node: wrap, get };
}

// A new message shifts the layout, so it waits until a pressed button is released.
let pressed = false;
addEventListener("pointerdown", () => (pressed = true), true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => (pressed = false), true);

function released(run) {
  if (pressed) addEventListener("pointerup", () => setTimeout(run), { once: true });
  else run();
}

export function requiredMark() {
  return h("span", { class: "required", title: "required" }, h("span", { "aria-hidden": "true" }, " *"), h("span", { class: "visually-hidden" }, " (required)"));
}

/** Show an error message at a field. */
export function show(field, text) {
  field.note.textContent = text;
  field.note.hidden = false;
  field.wrap.classList.add("invalid");
  for (const control of field.controls) control.setAttribute("aria-invalid", "true");
  for (let at = field.wrap.parentElement; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
}

/** Remove the error message of a field. */
export function clear(field) {
  if (!field || field.note.hidden) return;
  field.note.hidden = true;
  field.note.textContent = "";
  field.wrap.classList.remove("invalid");
  for (const control of field.controls) control.removeAttribute("aria-invalid");
}
