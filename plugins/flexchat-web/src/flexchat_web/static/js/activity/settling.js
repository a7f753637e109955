// Settling an unknown effect: a card with the known facts, and two buttons.
//   unknownCard(effect, { about, settled })     about: the tool's description;  settled(): called once the effect is settled
//   settleButtons(effect, settled)              only the buttons

import { h, uid } from "../dom.js";
import { busy, button, when } from "../elements.js";
import { post } from "../api.js";
import { openDialog, toast } from "../dialog.js";
import { argumentsOf, originLinks, dataView, effectBadge, effectPlace, factList, argumentsLine, shortened } from "./labels.js";

const DOUBLE_CLICK_MS = 600; // an earlier click is the second half of the one that opened the dialog

const ANSWERS = {
  done: {
    word: "It happened",
    title: "It happened?",
    means: "counts as done from now on: making this call again returns that, and nothing runs again.",
  },
  failed: {
    word: "It did not happen",
    title: "It did not happen?",
    means: "counts as failed from now on, so it must not happen later either. If it has to be done after all, ask for it in a new call.",
  },
};

/** Return the card of an unknown effect. */
export function unknownCard(effect, { about, settled }) {
  const given = argumentsOf(effect);
  const id = uid("effect");
  return h(
    "article",
    { class: "card waits", "aria-labelledby": id, tabindex: "-1" },
    h("header", { class: "spread" }, h("h3", { id }, "Did ", h("code", {}, effect.tool), " happen?"), h("p", { class: "row muted small-text" }, effectBadge(effect.state), when(effect.claimed_at))),
    settleHints(effect, about),
    given === undefined ? h("p", { class: "muted small-text" }, "Its arguments are no longer kept.") : dataView(given, "arguments"),
    factList([["Why nobody knows", shortened(effect.note)], ["Asked for", originLinks(effect)]]),
    h("div", { class: "row" }, settleButtons(effect, settled), h("a", { class: "button quiet", href: effectPlace(effect.key), "aria-label": `Details of ${effect.tool}` }, "Details")),
  );
}

/** Return hints for finding out whether the effect happened. */
export function settleHints(effect, about) {
  return h(
    "p",
    {},
    "Look at the service behind ",
    h("code", {}, effect.tool),
    about && ` (“${about.slice(0, 200)}”)`,
    ", not at the conversation: did this take effect?",
  );
}

/** Return the two buttons. */
export function settleButtons(effect, settled) {
  return Object.entries(ANSWERS).map(([state, { word }]) => button(word, { icon: state === "done" ? "check" : "close", onClick: () => ask(effect, state, settled) }));
}

function ask(effect, state, settled) {
  const { word, title, means } = ANSWERS[state];
  const id = uid("settle");
  const note = h("textarea", { id: `${id}-note`, class: "input", dir: "auto", rows: "2", maxlength: "2000", placeholder: state === "done" ? "The bank shows it, receipt 118." : "The bank does not list it.", "aria-describedby": `${id}-problem` });
  const problem = h("p", { class: "field-problem", id: `${id}-problem`, role: "alert" });
  const call = h("p", { class: "settle-call" }, h("code", { dir: "auto" }, `${effect.tool}(${argumentsLine(argumentsOf(effect))})`));
  const form = h(
    "form",
    { id, class: "stack" },
    call,
    h("p", {}, `It ${means} This cannot be changed later.`),
    h("div", { class: "field" }, h("label", { for: note.id }, "How do you know? ", h("span", { class: "muted" }, "(optional; the model may be told)")), note, problem),
  );
  const yes = button(word, { kind: "primary", type: "submit", form: id, disabled: true });
  const ready = setTimeout(() => (yes.disabled = false), DOUBLE_CLICK_MS);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (yes.disabled) return;
    problem.textContent = "";
    try {
      await busy(yes, post(`api/effects/${encodeURIComponent(effect.key)}/settle`, { state, note: note.value }));
      toast(`${effect.tool}: ${word.toLowerCase()}`, { kind: "ok" });
    } catch (error) {
      if (error.status !== 409 && error.status !== 404) {
        problem.textContent = error.message;
        return;
      }
      toast(error.message, { kind: "warn", seconds: 12 }); // settled by another person meanwhile
    }
    dialog.close();
    settled();
  });
  const dialog = openDialog({ title, content: form, actions: [button("Cancel", { onClick: () => dialog.close() }), yes], onClose: () => clearTimeout(ready) });
  note.focus();
}
