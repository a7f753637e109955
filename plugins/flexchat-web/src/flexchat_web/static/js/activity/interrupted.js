// Interrupted turns, whose process ended first: the reason they wait, and the possible actions.
//   interruptedCard(turn, ended)     ended(): called once it no longer waits

import { h, uid } from "../dom.js";
import { busy, button, when } from "../elements.js";
import { post } from "../api.js";
import { titleOf } from "../chat/title.js";
import { confirmed, toast } from "../dialog.js";
import { turnBadge, turnPlace } from "./labels.js";

/** Return the card of an interrupted turn. */
export function interruptedCard(turn, ended) {
  const id = uid("turn");
  return h(
    "article",
    { class: "card waits", "aria-labelledby": id, tabindex: "-1" },
    h("header", { class: "spread" }, h("h3", { id, dir: "auto", class: "anywhere" }, titleOf(turn.message || "") || "A turn without a message"), h("p", { class: "row muted small-text" }, turnBadge(turn.state), when(turn.began_at))),
    h("p", {}, interruptionReason(turn)),
    h("div", { class: "row" }, interruptedActions(turn, ended), h("a", { class: "button quiet", href: `#/chat/${encodeURIComponent(turn.conversation)}` }, "Conversation"), h("a", { class: "button quiet", href: turnPlace(turn.id) }, "Steps")),
  );
}

/** Describe why a turn waits. */
export function interruptionReason({ error }) {
  return error
    ? `It was interrupted and cannot go on: ${error}. Once that is mended, resume the turn; or cancel it.`
    : "The process that ran it ended before the turn did. The server resumes it by itself, unless it was told not to; the next message in its conversation ends it as far as it came.";
}

/** Return the buttons. */
export function interruptedActions(turn, ended) {
  const go = button("Resume", { icon: "play", onClick: () => resume(turn, go, ended) });
  const cancel = button("Cancel the turn", { icon: "stop", onClick: () => end(turn, cancel, ended) });
  return [go, cancel];
}

async function resume(turn, pressed, ended) {
  try {
    await busy(pressed, post(`api/turns/${encodeURIComponent(turn.id)}/resume`, null));
    toast("The turn goes on.", { kind: "ok" });
  } catch (error) {
    toast(error.message, { kind: "warn", seconds: 12 });
  }
  ended();
}

async function end(turn, pressed, ended) {
  const text = "What it did stays in its conversation, with what is unknown of it. It cannot be resumed afterwards.";
  if (!(await confirmed({ title: "Cancel this turn?", text, action: "Cancel the turn", keep: "Keep it", danger: true }))) return;
  try {
    await busy(pressed, post(`api/turns/${encodeURIComponent(turn.id)}/cancel`, null));
    toast("The turn has ended; what it did is in its conversation.", { kind: "ok" });
  } catch (error) {
    toast(error.message, { kind: error.status === 409 ? "warn" : "bad", seconds: 12 });
    if (error.status !== 409 && error.status !== 404) return;
  }
  ended();
}
