// The theme: "auto" (the system's), "light" or "dark". All colours follow CSS's color-scheme; see css/base.css.
//   document.body.append(themeSwitch())

import { h, icon } from "./dom.js";

const THEMES = [
  ["auto", "System theme", "display"],
  ["light", "Light theme", "sun"],
  ["dark", "Dark theme", "moon"],
];

/** Return three radio buttons, one for each theme. */
export function themeSwitch() {
  const now = document.documentElement.dataset.theme || "auto";
  return h(
    "fieldset",
    { class: "theme-switch" },
    h("legend", { class: "visually-hidden" }, "Theme"),
    THEMES.map(([name, label, picture]) =>
      h(
        "label",
        { title: label },
        h("input", {
          type: "radio",
          name: "theme",
          value: name,
          checked: name === now,
          class: "visually-hidden",
          onChange: () => choose(name),
        }),
        icon(picture),
        h("span", { class: "visually-hidden" }, label),
      ),
    ),
  );
}

function choose(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("flexchat.theme", name);
  } catch {
    // Storage is not available: the theme still applies.
  }
}
