// The steps of a turn as a readable list: requests, answers and tool calls, with their times and costs.

import { h, icon } from "../dom.js";
import { alert, badge, counted, money, ms } from "../elements.js";
import { outcome } from "../pages/explain_phases.js";
import { ruleName } from "../rule_labels.js";
import { toolCallCard } from "../tool_call.js";
import { codeView } from "../json_view.js";
import { between } from "./labels.js";

const KINDS = {
  accepted: { picture: "history", title: () => "Accepted, to run when it is its turn" },
  started: { picture: "chat", title: () => "The message", body: ({ request }) => text(request.user_message, "message") },
  phase: { picture: "phases", title: phaseName, took: ({ record }) => took(record.elapsed_ms, record.usage), body: phase },
  rule: { picture: "explain", title: ({ index, outcome: found }) => `${ruleName(index, found?.name)} answers`, body: ({ tools }) => tools?.length > 0 && h("p", { class: "muted small-text" }, `It may use ${tools.join(", ")}.`) },
  request: { picture: "send", title: ({ llm, model, messages }) => `${modelName(llm, model)} is asked, with ${counted(messages ?? 0, "message")}` },
  answer: { picture: "document", title: answerTitle, took: (data) => took(data.elapsed_ms), body: answer },
  tool: { picture: "tools", title: () => "Tool call", body: ({ record }) => toolCallCard.of(record) },
  question: { picture: "question", title: ({ question }) => `${question.tool} ${question.digest ? "needs approval" : "asks"}`, body: ({ question }) => text(question.message, "question") },
  reply: { picture: "check", title: ({ reply }) => ({ accept: "Accepted", decline: "Declined", cancel: "Not answered" })[reply.action], body: ({ reply }) => reply.why && h("p", { class: "anywhere" }, reply.why) },
  resumed: { picture: "retry", title: () => "Resumed" },
};

/** Return a turn's steps as a list. */
export function stepList({ steps, began_at: began, state, ended_at: ended, error }) {
  const end = { done: ["check", "The turn is done"], failed: ["failed", "The turn failed"], cancelled: ["stop", "The turn was cancelled"], interrupted: ["warning", "Here its process ended"], running: ["running", "The turn is still running"], suspended: ["question", "Suspended until one of its questions has a reply"], accepted: ["history", "The turn has not begun"] }[state];
  return h(
    "ol",
    { class: "timeline steps" },
    steps.map((step) => item(step, began)),
    end && h("li", { class: ["ends", state] }, mark(end[0]), h("div", { class: "timeline-body" }, h("div", { class: "spread" }, h("h3", {}, end[1]), ended && at(began, ended)), state === "failed" && error && h("p", { class: "anywhere" }, error))),
  );
}

function item({ kind, data, at: time, cost }, began) {
  const known = KINDS[kind] || { picture: "info", title: () => kind };
  return h(
    "li",
    { data: { kind } },
    mark(known.picture),
    h("div", { class: "timeline-body" }, h("div", { class: "spread" }, h("h3", { class: "anywhere" }, known.title(data)), h("span", { class: "row muted small-text" }, known.took?.(data), cost && badge(money(cost), "", null, { title: cost.unpriced.join("; ") }), at(began, time))), known.body?.(data)),
  );
}

function mark(picture) {
  return h("span", { class: "timeline-mark" }, icon(picture));
}

/** Format the time of a step, counted from the turn's start. */
function at(began, time) {
  const after = between(began, time);
  return after === null ? null : h("time", { class: "muted small-text", datetime: time, title: `after the turn began: ${new Date(time).toLocaleString()}` }, after < 1 ? "+0 ms" : `+${ms(after)}`);
}

function phaseName({ record }) {
  return record.phase === "rag collection" ? "Document search" : record.phase.replace(/^./, (first) => first.toUpperCase());
}

function phase({ record }) {
  return [record.skipped ? h("p", { class: "muted small-text" }, `Not run: ${record.skipped}.`) : h("p", {}, outcome(record)), warnings(record.warnings)];
}

function parts(data) {
  return data.result?.message?.parts || [];
}

function answerTitle(data) {
  const calls = parts(data).filter((part) => part.type === "tool_call").map((part) => part.name);
  const did = calls.length ? `calls ${calls.join(", ")}` : data.result?.finish_reason === "refusal" ? "refuses" : "answers";
  return `${modelName(data.llm, data.model)} ${did}`;
}

function answer(data) {
  const said = parts(data).filter((part) => part.type === "text" || part.type === "refusal").map((part) => part.text).join("");
  const thoughts = parts(data).filter((part) => part.type === "reasoning" && part.text).map((part) => part.text).join("\n\n");
  const { input_tokens: read, output_tokens: written } = data.result?.usage || {};
  return [
    thoughts && h("details", { class: "thought" }, h("summary", {}, icon("right"), "Reasoning"), h("div", { class: "thought-text", dir: "auto" }, thoughts)),
    said && text(said, "answer"),
    (read || written) && h("p", { class: "muted small-text" }, `${counted(read || 0, "token")} read, ${(written || 0).toLocaleString()} written.`),
    warnings([...(data.warnings || []), ...(data.result?.warnings || [])]),
  ];
}

function text(said, label) {
  return codeView(said, { label, lines: 12 });
}

function warnings(all) {
  return all?.length > 0 && alert("warn", h("ul", {}, all.map((one) => h("li", {}, one))));
}

function modelName(llm, model) {
  return [llm, model].filter((part, place, all) => part && part !== all[place - 1]).join(" / ");
}

function took(time, usage) {
  const count = (usage?.input_tokens || 0) + (usage?.output_tokens || 0);
  return [time !== undefined && time !== null && badge(ms(time), "", null, { title: "how long it took" }), count > 0 && badge(counted(count, "token"))];
}
