// The collections to search: all, or the selected ones.
//   const choice = collectionChoice(collections);  choice.node;  choice.value   null: all

import { h, icon } from "../dom.js";

/** Return the choice; its node is null where there is nothing to choose. */
export function collectionChoice(collections) {
  if (!collections?.length) return { node: null, value: null };
  const word = h("span", {});
  const boxes = collections.map(() => h("input", { type: "checkbox", checked: true, onChange: () => tell() }));
  const tell = () => {
    const count = boxes.filter((box) => box.checked).length;
    word.textContent = `Collections: ${count === boxes.length ? "all" : count ? `${count} of ${boxes.length}` : "none"}`;
  };
  tell();
  const node = h(
    "details",
    { class: "collections" },
    h("summary", { class: "button small" }, icon("document"), word),
    h(
      "fieldset",
      { class: "collections-list" },
      h("legend", { class: "visually-hidden" }, "Collections to search"),
      collections.map((one, index) =>
        h(
          "label",
          { class: "check" },
          boxes[index],
          h(
            "span",
            {},
            h("strong", {}, [one.service, one.name].filter(Boolean).join(" / ")),
            one.count !== null && one.count !== undefined && h("span", { class: "muted" }, ` ${one.count} ${one.count === 1 ? "document" : "documents"}`),
            one.description && h("span", { class: "muted block" }, one.description),
          ),
        ),
      ),
    ),
  );
  const close = (event) => {
    if (event.type === "keydown" ? event.key === "Escape" : !node.contains(event.relatedTarget)) node.open = false;
  };
  node.addEventListener("keydown", close);
  node.addEventListener("focusout", (event) => event.relatedTarget && close(event));
  return {
    node,
    get value() {
      if (boxes.every((box) => box.checked)) return null;
      return collections.filter((_, index) => boxes[index].checked).map(({ service, name }) => (name ? { service, name } : { service }));
    },
  };
}
