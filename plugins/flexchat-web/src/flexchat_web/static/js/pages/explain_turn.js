// The routing of a stored turn, from its records. No model is asked.

import { h, replace } from "../dom.js";
import { alert, badge, counted, emptyState, errorCard, money, costNode, ms, pageHead, spinner, when } from "../elements.js";
import { sessions } from "../chat/sessions.js";
import { conditionList, ruleName } from "../rule_labels.js";
import { setPlace } from "../router.js";
import { timeline, tokens } from "./explain_phases.js";

/** Show a turn of a conversation on the page Explain. */
export async function answeredTurn(root, conversation, id) {
  const back = h("a", { class: "button", href: `#/chat/${encodeURIComponent(conversation)}` }, "Back to the conversation");
  const out = h("div", { class: "stack" }, spinner("Opening"));
  root.append(pageHead("Why this rule?", "How this answer came about, as it was kept with it.", back), out);
  setPlace("Why this rule?");
  const session = sessions.find(conversation);
  await session.open();
  const turn = session.turn(id);
  if (session.problem) replace(out, errorCard(session.problem, { reading: true, retry: () => location.reload() }));
  else if (!turn) replace(out, emptyState("This turn is not kept", h("p", {}, "It was deleted, or the server keeps no conversations.")));
  else replace(out, ...view(turn.data, turn.text));
}

const DID = { done: "answered", cancelled: "was chosen", failed: "was chosen" };
const STATUS = { cancelled: ["stopped", "warn", "stop"], failed: ["failed", "bad", "failed"] };

function view(turn, asked) {
  const again = h("a", { href: `#/explain?${new URLSearchParams({ prompt: asked })}` }, "What would answer this message now?");
  const warnings = (turn.warnings || []).length > 0 && alert("warn", h("ul", {}, turn.warnings.map((text) => h("li", {}, text))));
  const status = STATUS[turn.status];
  return [
    h("section", { class: "card stack tight", "aria-label": "Message" }, h("p", { class: "turn-asked", dir: "auto" }, asked), h("p", { class: "row muted small-text" }, status && badge(...status), turn.at && when(turn.at), turn.elapsed_ms > 0 && h("span", {}, ms(turn.elapsed_ms)), costNode(turn.cost), again), turn.cost.unpriced.length > 0 && h("p", { class: "muted small-text" }, `Not in the cost: ${turn.cost.unpriced.join("; ")}.`)),
    verdict(turn),
    turn.error && alert("bad", h("p", {}, turn.error)),
    warnings,
    turn.phases?.length > 0
      ? h("div", { class: "explain-columns" }, timeline(turn.phases), h("div", { class: "stack" }, rules(turn), rounds(turn.rounds || [])))
      : h("p", { class: "muted" }, "Only the messages of this turn were kept."),
  ];
}

function verdict({ rule, rule_name: name, service, model, status }) {
  if (rule === null || rule === undefined) return alert("warn", h("p", {}, "It is not known which rule answered: the turn ended before one was chosen, or an earlier version kept it."));
  const by = [service, model].filter((part, at, all) => part && part !== all[at - 1]).join(" / ");
  return alert(status === "done" ? "ok" : "", h("p", {}, h("strong", {}, `${ruleName(rule, name)} ${DID[status] || DID.done}`), by && `, with ${by}`, "."));
}

function rules({ phases, rule_name: name, status }) {
  const found = phases.find((one) => one.phase === "response matching")?.outcome;
  if (!found) return null;
  const before = (found.passed_over || []).map((one) => h("li", { class: "card" }, h("div", { class: "spread" }, h("h3", {}, ruleName(one.rule, one.name)), badge("did not fit", "", "close")), conditionList({}, { failed: [one.failed].flat() })));
  const chosen = h("li", { class: "card wins" }, h("div", { class: "spread" }, h("h3", {}, ruleName(found.rule, name)), badge(DID[status] || DID.done, "ok", "check")), conditionList(found.match, { failed: [] }));
  return h("section", { class: "stack", "aria-labelledby": "turn-rules" }, h("h2", { id: "turn-rules" }, "Rules"), h("ol", { class: "rules" }, before, chosen));
}

function rounds(all) {
  if (!all.length) return null;
  return h(
    "section",
    { class: "stack", "aria-labelledby": "turn-rounds" },
    h("h2", { id: "turn-rounds" }, "Answers of the model"),
    h(
      "ol",
      { class: "rules" },
      all.map((one, index) =>
        h(
          "li",
          { class: "card stack tight" },
          h("div", { class: "spread" }, h("h3", {}, `Round ${index + 1}`, h("span", { class: "muted" }, ` ${[one.llm, one.model].filter((part, at, parts) => part && part !== parts[at - 1]).join(" / ")}`)), h("span", { class: "muted small-text" }, [ms(one.elapsed_ms), tokens(one.usage), money(one.cost)].filter(Boolean).join(" · "))),
          one.finish_reason && h("p", { class: "muted small-text" }, ENDED[one.finish_reason] || `Ended with “${one.finish_reason}”.`),
          one.usage && h("p", { class: "muted small-text" }, `${counted(one.usage.input_tokens ?? 0, "token")} read, ${(one.usage.output_tokens ?? 0).toLocaleString()} written.`),
          one.history?.left_out && h("p", { class: "muted small-text" }, `Left out of the request: ${one.history.left_out.map((each) => `${each.count.toLocaleString()} ${each.what} (${each.why})`).join(", ")}.`),
          one.history?.summary && h("details", { class: "thought" }, h("summary", {}, "Summary in place of turns"), h("div", { class: "thought-text", dir: "auto" }, one.history.summary.text)),
          one.reasoning && h("details", { class: "thought" }, h("summary", {}, "Reasoning"), h("div", { class: "thought-text", dir: "auto" }, one.reasoning)),
        ),
      ),
    ),
  );
}

const ENDED = { stop: "Complete.", tool_calls: "Calls tools.", length: "Cut off at its limit of tokens.", content_filter: "Filtered by its service." };
