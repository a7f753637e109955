// Dialogs and toasts.
//   if (await confirmed({ title: "Delete?", text: "…", action: "Delete", danger: true })) …
//   await askText({ title: "Rename", label: "Title", value, action: "Rename", maxLength: 200, save: (name) => … })
//   const dialog = openDialog({ title, content: node, actions: [button(…)], wide: true, onClose })   dialog.close()
//   toast("Saved", { kind: "ok" });  toast("Deleted", { action: ["Undo", () => …], seconds: 8 })
//   closeDialogs()   when their page is left

import { h, icon, uid } from "./dom.js";
import { busy, button, iconButton } from "./elements.js";

/** Open a dialog over the page; Escape and the cross close it. */
export function openDialog({ title, content, actions = [], wide = false, onClose, className = "" }) {
  const id = uid("dialog");
  const before = document.activeElement;
  const node = h(
    "dialog",
    { class: ["dialog", wide && "wide", className], "aria-labelledby": id },
    h("header", { class: "dialog-head" }, h("h2", { id }, title), iconButton("close", "Close", () => node.close())),
    h("div", { class: "dialog-body", tabindex: "0" }, content),
    actions.length > 0 && h("footer", { class: "dialog-actions" }, actions),
  );
  node.addEventListener("close", () => {
    node.remove();
    if (before?.isConnected) before.focus();
    onClose?.();
  });
  node.addEventListener("click", (event) => {
    if (event.target === node) node.close(); // the backdrop
  });
  document.body.append(node);
  node.showModal();
  return node;
}

/** Close all open dialogs, as Escape does. */
export function closeDialogs() {
  for (const node of [...document.querySelectorAll("dialog[open]")].reverse()) node.close();
}

/** Ask yes or no. */
export function confirmed({ title, text, action = "OK", keep = "Cancel", danger = false }) {
  return new Promise((resolve) => {
    let answer = false;
    const yes = button(action, { kind: danger ? "danger" : "primary", onClick: () => ((answer = true), dialog.close()) });
    const dialog = openDialog({
      title,
      content: typeof text === "string" ? h("p", {}, text) : text,
      actions: [button(keep, { onClick: () => dialog.close() }), yes],
      onClose: () => resolve(answer),
    });
    yes.focus();
  });
}

/** Ask for a line of text and save it; the dialog stays open with the error until that succeeds or is cancelled. */
export function askText({ title, label, value = "", action = "OK", maxLength, save }) {
  const id = uid("ask");
  const input = h("input", { id, type: "text", dir: "auto", value, class: "input", required: true, maxlength: maxLength, "aria-describedby": `${id}-problem` });
  const problem = h("p", { class: "field-problem", id: `${id}-problem`, role: "alert" });
  const form = h("form", { id: `${id}-form`, class: "field" }, h("label", { for: id }, label), input, problem);
  const yes = button(action, { kind: "primary", type: "submit", form: form.id });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    problem.textContent = "";
    try {
      await busy(yes, save(text));
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
      input.focus();
    }
  });
  const dialog = openDialog({ title, content: form, actions: [button("Cancel", { onClick: () => dialog.close() }), yes] });
  input.focus();
  input.select();
}

/** Show a message at the page's edge for some seconds. */
export function toast(text, { kind = "", action = null, seconds = 5 } = {}) {
  const picture = { ok: "ok", bad: "failed", warn: "warning" }[kind] || "info";
  const node = h(
    "div",
    { class: ["toast", kind] },
    icon(picture),
    h("span", {}, text),
    action && button(action[0], { kind: "quiet", onClick: () => (node.remove(), action[1]()) }),
    iconButton("close", "Dismiss", () => node.remove()),
  );
  document.getElementById("toasts").append(node);
  let timer = setTimeout(() => node.remove(), seconds * 1000);
  const hold = () => clearTimeout(timer);
  const release = () => (timer = setTimeout(() => node.remove(), seconds * 1000));
  for (const name of ["mouseenter", "focusin"]) node.addEventListener(name, hold);
  for (const name of ["mouseleave", "focusout"]) node.addEventListener(name, release);
  return node;
}
