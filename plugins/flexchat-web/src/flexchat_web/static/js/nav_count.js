// The number of items that need a person, at a page's link in the navigation.
//   showCount("activity", 3)      3, "99+"; 0 for none

import { h } from "./dom.js";

/** Show a number at a page's link. */
export function showCount(name, count) {
  const place = document.querySelector(`#navigation [data-key="${name}"]`);
  place?.querySelector(".nav-count")?.remove();
  if (count) place?.append(h("span", { class: "nav-count" }, String(count), h("span", { class: "visually-hidden" }, " waiting")));
}
