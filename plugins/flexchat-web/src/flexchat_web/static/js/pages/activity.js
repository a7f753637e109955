// Activity: items that need a person, and the history of effects and turns.
//   #/activity      #/activity/effects/KEY      #/activity/turns/ID

import { h, replace } from "../dom.js";
import { alert, badge, button, errorCard, busy, pageHead, spinner, when } from "../elements.js";
import { get, uiConfig } from "../api.js";
import { onReturn } from "../attention.js";
import { costSection } from "../activity/costs.js";
import { effectPage } from "../activity/effect_page.js";
import { interruptedCard } from "../activity/interrupted.js";
import { unknownCard } from "../activity/settling.js";
import { toolDescriptions } from "../activity/tool_descriptions.js";
import { turnPage } from "../activity/turn_page.js";
import { openQuestions, waiting } from "../activity/waiting.js";
import { argumentsOf, effectBadge, effectPlace, effectStates, argumentsLine, shortened, turnBadge, turnPlace, turnStates } from "../activity/labels.js";

export const title = "Activity";

const PAGE = 25;

const LISTS = {
  effects: {
    word: "Effects",
    states: effectStates,
    id: (effect) => effect.key,
    row: (effect) => row(effectPlace(effect.key), effectBadge(effect.state), h("code", {}, effect.tool), argumentsLine(argumentsOf(effect)), effect.claimed_at),
    none: "No tool has changed anything yet: each call of a tool that changes something appears here.",
  },
  turns: {
    word: "Turns",
    states: turnStates,
    id: (turn) => turn.id,
    row: (turn) => row(turnPlace(turn.id), turnBadge(turn.state), h("span", { dir: "auto" }, turn.message), shortened(turn.error), turn.began_at),
    none: "No turn is kept yet: each message in a kept conversation appears here.",
  },
};
let chosen = { list: "effects", state: "" }; // the last selection

export async function mount(root, { rest: [kind, id] }) {
  if (kind === "effects" && id) return effectPage(root, id);
  if (kind === "turns" && id) return turnPage(root, id);
  const server = await uiConfig();
  const waits = h("section", { class: "stack", "aria-labelledby": "waiting" });
  const recent = recently(server);
  const costs = server.counts_costs ? costSection() : null;
  root.append(
    pageHead(title, "What waits for you, and what tools and turns have done."),
    ...kept(server),
    waits,
    recent.node,
    ...(costs ? [costs.node] : []),
  );

  async function look({ settled = false } = {}) {
    try {
      const [{ effects, turns }, questions, about] = await Promise.all([waiting.look(), openQuestions(), toolDescriptions()]);
      const again = () => look({ settled: true });
      replace(
        waits,
        h("h2", { id: "waiting", tabindex: "-1" }, "Waiting for you"),
        effects.length + turns.length + questions.length === 0 &&
          h("p", { class: "muted" }, "Nothing does. A call of a tool appears here if it needs a reply, or if it cannot be known whether it happened, and a turn if its process ended before the turn did."),
        questions.length > 0 && h("ul", { class: "activity-list" }, questions.map(questionRow)),
        effects.map((effect) => unknownCard(effect, { about: about.get(effect.tool), settled: again })),
        turns.map((turn) => interruptedCard(turn, again)),
      );
      if (settled) {
        waits.querySelector("h2").focus();
        await recent.load();
      }
    } catch (error) {
      replace(waits, errorCard(error, { reading: true, retry: look }));
    }
  }

  replace(waits, spinner("Looking"));
  await Promise.all([look(), recent.load(), costs?.load()]);
  return { unmount: onReturn(() => document.querySelector("dialog[open]") || look()) };
}

/** A question that waits: its page takes the reply, or without that page the conversation does. */
function questionRow({ question, turn, asked_at: at }) {
  const hasPage = document.querySelector("#navigation [data-key=approvals]");
  const mark = question.digest ? badge("needs approval", "warn", "lock") : badge("asks", "warn", "question");
  return row(hasPage ? "#/approvals" : turnPlace(turn), mark, h("code", {}, question.tool), shortened(question.message), at);
}

function kept({ keeps_conversations: conversations, keeps_effects: effects }) {
  const told = [
    !conversations && h("p", {}, "This server keeps no conversations, so there are no turns to show. A table ", h("code", {}, "[conversations]"), " in the configuration changes that."),
    !effects && h("p", {}, "Effects are kept in memory: what is shown here ends with the server."),
  ].filter(Boolean);
  return told.length ? [alert("", ...told)] : [];
}

/** The lists of effects and turns: { node, load }. */
function recently(server) {
  const names = server.keeps_conversations ? ["effects", "turns"] : ["effects"];
  if (!names.includes(chosen.list)) chosen = { list: "effects", state: "" };
  const list = h("ul", { class: "activity-list" });
  const foot = h("div", {});
  const states = h("select", { class: "input", "aria-label": "State", onChange: () => ((chosen.state = states.value), load()) });
  const choice = (name) => h("label", {}, h("input", { type: "radio", class: "visually-hidden", name: "activity-list", value: name, checked: chosen.list === name, onChange: () => pick(name) }), LISTS[name].word);
  const node = h(
    "section",
    { class: "stack", "aria-labelledby": "recent" },
    h("div", { class: "spread" }, h("h2", { id: "recent" }, "Recently"), h("div", { class: "row" }, names.length > 1 && h("fieldset", { class: "segmented" }, h("legend", { class: "visually-hidden" }, "Show"), names.map(choice)), states)),
    list,
    foot,
  );
  let asked = 0;

  function pick(name) {
    chosen = { list: name, state: "" };
    offer();
    load();
  }

  function offer() {
    replace(states, h("option", { value: "" }, "All states"), LISTS[chosen.list].states.map(([state, word]) => h("option", { value: state }, word)));
    states.value = chosen.state;
  }

  async function page(before) {
    const found = await get(`api/${chosen.list}`, { state: chosen.state, limit: PAGE, before });
    return found[chosen.list];
  }

  function add(items) {
    const { id, row: rowOf } = LISTS[chosen.list];
    list.append(...items.map(rowOf));
    const more = button("Show more", { kind: "quiet", onClick: () => busy(more, page(id(items.at(-1)))).then(add, (error) => replace(foot, errorCard(error))) });
    replace(foot, items.length === PAGE && more);
  }

  async function load() {
    const now = (asked += 1);
    try {
      const items = await page();
      if (now !== asked) return;
      replace(list);
      list.dataset.list = chosen.list;
      add(items);
      if (!items.length) replace(foot, h("p", { class: "muted" }, chosen.state ? "None is in this state." : LISTS[chosen.list].none));
    } catch (error) {
      if (now === asked) replace(foot, errorCard(error, { reading: true, retry: load }));
    }
  }

  offer();
  return { node, load };
}

function row(href, state, name, text, time) {
  return h("li", {}, h("a", { class: "activity-row", href }, h("span", { class: "activity-state" }, state), h("span", { class: "activity-name" }, name), h("span", { class: "activity-text", dir: "auto" }, text), h("span", { class: "activity-time" }, when(time))));
}
