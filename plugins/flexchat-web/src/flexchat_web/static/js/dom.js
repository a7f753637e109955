// Building and updating the page.
//   h("button", { class: "button", disabled: busy, onClick: run }, icon("play"), "Run")
//   props: class (a string, or a list in which false and null are left out), onX listeners, data: {…}, ref: node => …;
//   a property of the element (value, checked, disabled, …) is set as such, everything else as an attribute;
//   null, undefined and false leave an attribute out. No style attribute: the page's policy forbids it; use classes,
//   or node.style.setProperty("--x", …).
//   children: nodes, texts, numbers, lists of them; null, undefined and false are left out.
//   replace(node, ...children) · keyed(parent, items, keyOf, make, update) · svg(tag, attributes, ...children) ·
//   icon(name, label?) · announce(text) for screen readers · uid() for ids · displayText(text).

import { ICONS } from "./icons.js";

const SVG = "http://www.w3.org/2000/svg";
const AS_PROPERTY = new Set(["value", "checked", "disabled", "selected", "open", "hidden", "readOnly", "indeterminate", "required", "multiple"]);
let ids = 0;

/** Return a new element. */
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  // A select's value must be one of its options, so the options are added first.
  append(node, children);
  for (const [name, value] of Object.entries(props || {})) set(node, name, value);
  if (props?.ref) props.ref(node);
  return node;
}

/** Return a new SVG element; attributes only. */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
  }
  append(node, children);
  return node;
}

/** Return an icon: decorative, or with a label as its accessible name. */
export function icon(name, label = "") {
  const told = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 24 24", ...told }, svg("path", { d: ICONS[name] || "" }));
}

/** Replace the children of a node. */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/**
 * Make a parent show items in their order, one element each. Elements of items that stay are kept, with their focus.
 * make(item) returns a new element; update(element, item) is called for those there already.
 */
export function keyed(parent, items, keyOf, make, update = () => {}) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    if (node) {
      old.delete(key);
      update(node, item);
    } else {
      node = make(item);
      node.dataset.key = key;
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const node of old.values()) node.remove();
}

/** Announce a text to screen readers, once. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  requestAnimationFrame(() => (place.textContent = displayText(text)));
}

/** Return a text for display: direction overrides (U+202D, U+202E) are replaced. */
export function displayText(text) {
  return text.replace(/[\u202D\u202E]/g, "\uFFFD");
}

/** Return a unique element id. */
export function uid(prefix = "id") {
  return `${prefix}-${++ids}`;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === true) continue;
    node.append(child instanceof Node ? child : displayText(String(child)));
  }
}

function set(node, name, value) {
  if (name === "ref") return;
  if (name === "class") {
    node.className = [value].flat().filter(Boolean).join(" ");
  } else if (name === "data") {
    for (const [key, text] of Object.entries(value)) if (text !== null && text !== undefined) node.dataset[key] = text;
  } else if (/^on[A-Z]/.test(name)) {
    if (value) node.addEventListener(name.slice(2).toLowerCase(), value);
  } else if (AS_PROPERTY.has(name)) {
    if (value !== undefined && value !== null) node[name] = value;
  } else if (value !== null && value !== undefined && value !== false) {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}
