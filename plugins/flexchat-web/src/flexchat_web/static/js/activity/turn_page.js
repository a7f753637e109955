// The journal of a turn of a stored conversation, step by step: #/activity/turns/ID

import { h, replace } from "../dom.js";
import { alert, emptyState, errorCard, money, ms, pageHead, spinner } from "../elements.js";
import { get } from "../api.js";
import { reloadLater } from "../attention.js";
import { setPlace } from "../router.js";
import { interruptedActions, interruptionReason } from "./interrupted.js";
import { stepList } from "./steps.js";
import { waiting } from "./waiting.js";
import { between, exactly, factList, turnBadge } from "./labels.js";

export async function turnPage(root, id) {
  const out = h("div", { class: "stack" }, spinner("Opening"));
  root.append(pageHead("Turn", "What was asked, answered and run, in order.", h("a", { class: "button", href: "#/activity" }, "All activity")), out);

  let shown = ""; // the turn as JSON

  async function show() {
    try {
      const turn = await get(`api/turns/${encodeURIComponent(id)}`);
      if (!out.isConnected) return;
      const text = JSON.stringify(turn);
      if (text !== shown) {
        setPlace("Turn · Activity");
        replace(out, ...view(turn, ended)); // only if it changed: a reader may have selected text in it
        shown = text;
      }
      if (["accepted", "suspended", "running", "interrupted"].includes(turn.state)) reloadLater(out, show);
    } catch (error) {
      if (shown && error.status === 0) {
        reloadLater(out, show); // the server may be restarting
        return;
      }
      shown = "";
      if (error.status === 404) replace(out, emptyState("This turn is not kept", h("p", {}, "Its steps were deleted with its conversation or after some time, or the server keeps no conversations.")));
      else replace(out, errorCard(error, { reading: true, retry: show }));
    }
  }

  async function ended() {
    await show();
    waiting.look().catch(() => {});
  }

  await show();
}

function view(turn, ended) {
  const took = between(turn.began_at, turn.ended_at);
  const conversation = h("a", { href: `#/chat/${encodeURIComponent(turn.conversation)}` }, "Open the conversation");
  return [
    h(
      "section",
      { class: "card", "aria-label": "State" },
      h("div", { class: "row" }, turnBadge(turn.state), took !== null && h("span", { class: "muted small-text" }, ms(took)), conversation),
      turn.state === "interrupted" && [alert("warn", h("p", {}, interruptionReason(turn))), h("div", { class: "row" }, interruptedActions(turn, ended))],
      turn.state === "suspended" && alert("", h("p", {}, "It goes on once one of its questions has a reply. A new message in its conversation ends it."), h("p", {}, conversation.cloneNode(true))),
      turn.state === "failed" && turn.error && alert("bad", h("p", {}, turn.error)),
      factList([["Began", exactly(turn.began_at)], ["Ended", turn.ended_at && exactly(turn.ended_at)], ["Cost", costs(turn.cost)], ["Id", h("code", {}, turn.id)]]),
    ),
    h("section", { class: "stack", "aria-labelledby": "turn-steps" }, h("h2", { id: "turn-steps" }, "Steps"), stepList(turn)),
  ];
}

function costs(cost) {
  return [money(cost), cost.unpriced.length > 0 && h("span", { class: "muted" }, ` (${cost.unpriced.join("; ")})`)];
}
