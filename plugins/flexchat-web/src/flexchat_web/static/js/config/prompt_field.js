// A prompt with buttons that insert variables.

import { h, uid } from "../dom.js";
import { binding } from "./binding.js";
import { startsWith } from "./paths.js";

/** Return a field for a text at a path of the draft: { node, update }. */
export function promptField(draft, path, { label, hint, variables }) {
  const id = uid("prompt");
  const area = h("textarea", { id, class: "input prompt", rows: 4, "aria-describedby": `${id}-hint ${id}-problem`, disabled: !draft.editable, onInput: () => bound.changed() });
  const note = h("p", { class: "field-problem", id: `${id}-problem`, hidden: true });
  const put = (name) => {
    area.setRangeText(`{{${name}}}`, area.selectionStart, area.selectionEnd, "end");
    area.focus();
    bound.changed();
  };
  const chips = variables.map((name) => h("button", { type: "button", class: "chip", title: `Put {{${name}}} in`, "aria-label": `Put {{${name}}} in`, disabled: !draft.editable, onClick: () => put(name) }, `{{${name}}}`));
  const bound = binding(draft, path, { read: () => area.value || undefined, write: (value) => (area.value = value ?? "") });

  function update(what) {
    if (what !== "problems") bound.update();
    const texts = draft.errors.filter((one) => startsWith(one.place, path)).map((one) => one.text);
    note.hidden = !texts.length;
    note.textContent = texts.join(" ");
  }

  area.value = draft.at(path) ?? "";
  update("problems");
  return {
    node: h("div", { class: "field" }, h("label", { for: id }, label), h("p", { class: "field-hint", id: `${id}-hint` }, hint), area, h("div", { class: "chips", role: "group", "aria-label": `Variables of ${label}` }, chips), note),
    update,
  };
}
