// One effect with all its facts: #/activity/effects/KEY

import { h, replace } from "../dom.js";
import { alert, emptyState, errorCard, pageHead, spinner } from "../elements.js";
import { get } from "../api.js";
import { reloadLater } from "../attention.js";
import { setPlace } from "../router.js";
import { argumentsOf, originLinks, dataView, effectBadge, exactly, factList, shortened } from "./labels.js";
import { settleHints, settleButtons } from "./settling.js";
import { toolDescriptions } from "./tool_descriptions.js";
import { waiting } from "./waiting.js";

export async function effectPage(root, key) {
  const out = h("div", { class: "stack" }, spinner("Opening"));
  root.append(pageHead("Effect", "A call of a tool that changes something.", h("a", { class: "button", href: "#/activity" }, "All activity")), out);

  let shown = ""; // the effect as JSON

  async function show() {
    try {
      const effect = await get(`api/effects/${encodeURIComponent(key)}`);
      const about = (await toolDescriptions()).get(effect.tool);
      if (!out.isConnected) return;
      const text = JSON.stringify(effect);
      if (text !== shown) {
        setPlace(`${effect.tool} · Activity`);
        replace(out, ...view(effect, about, settled)); // only if it changed: a reader may have selected text in it
        shown = text;
      }
      if (["claimed", "unknown"].includes(effect.state)) reloadLater(out, show);
    } catch (error) {
      if (shown && error.status === 0) {
        reloadLater(out, show); // the server may be restarting
        return;
      }
      shown = "";
      if (error.status === 404) replace(out, emptyState("This effect is not kept", h("p", {}, "Its time is over, or there never was one with this key.")));
      else replace(out, errorCard(error, { reading: true, retry: show }));
    }
  }

  async function settled() {
    await show();
    waiting.look().catch(() => {});
  }

  await show();
}

function view(effect, about, settled) {
  const given = argumentsOf(effect);
  const isUnknown = effect.state === "unknown";
  const by = effect.settled_by && ` (said by ${effect.settled_by})`;
  return [
    h("section", { class: "card", "aria-label": "State" }, h("div", { class: "row" }, h("h2", {}, h("code", {}, effect.tool)), effectBadge(effect.state), by && h("span", { class: "muted small-text" }, by)), isUnknown && alert("warn", h("p", {}, h("strong", {}, "Nobody knows whether it happened"), effect.note && `: ${shortened(effect.note)}`), settleHints(effect, about)), isUnknown && h("div", { class: "row" }, settleButtons(effect, settled))),
    h("section", { class: "stack tight", "aria-labelledby": "effect-arguments" }, h("h2", { id: "effect-arguments" }, "Arguments"), given === undefined ? h("p", { class: "muted" }, "They are no longer kept.") : dataView(given, "arguments")),
    effect.result && h("section", { class: "stack tight", "aria-labelledby": "effect-result" }, h("h2", { id: "effect-result" }, "Result"), dataView(effect.result.error ?? effect.result.result ?? null, "result")),
    h(
      "section",
      { class: "stack tight", "aria-labelledby": "effect-facts" },
      h("h2", { id: "effect-facts" }, "Where and when"),
      factList([
        ["Began", exactly(effect.claimed_at)],
        ["Ended", effect.ended_at && exactly(effect.ended_at)],
        ["Note", !isUnknown && shortened(effect.note)],
        ["Asked for", originLinks(effect)],
        ["Key", h("code", {}, effect.key)],
      ]),
    ),
  ];
}
