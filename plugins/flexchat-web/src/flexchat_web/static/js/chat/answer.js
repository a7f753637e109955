// An answer: its texts, its running tool calls, and its sources.
//   const answer = answerView();  list.append(answer.node)
//   answer.take({ event, data }) for each event of a turn; answer.said(): its text so far
//   answer.broken(): the connection is lost for now
//   answer.finish(turn, { conversation, asked }) | answer.fail(error, again) | answer.stop(again)
//   interruptedAnswer(again): one that was interrupted by leaving the page
//   storedAnswer(turn, { conversation, again }): the same for a turn of a stored conversation
// A node is updated while it is not in the document as well: another session may be shown meanwhile.

import { announce, h, icon, replace, displayText } from "../dom.js";
import { alert, badge, button, copyButton, errorCard, costNode, ms, when } from "../elements.js";
import { liveCalls } from "../live_calls.js";
import { get } from "../api.js";
import { markdown } from "../markdown.js";
import { mediaList } from "../media.js";
import { toolCallCard } from "../tool_call.js";
import { questionCard } from "./question.js";

const PHASES = {
  "topic detection": "Detecting the topic…",
  "rag collection": "Searching documents…",
  "intent detection": "Detecting the intent…",
};
const WRITING = "Writing…";
const PATIENCE_S = 3; // seconds before the elapsed time is shown

/** Return an answer that is being written. */
export function answerView() {
  const body = h("div", { class: "answer-body" });
  const status = h("p", { class: "answer-status" }, h("span", { class: "pulse", "aria-hidden": "true" }), h("span", {}, "Waiting for the server…"));
  const foot = h("div", { class: "answer-foot" });
  const node = h("article", { class: "message answer", "aria-label": "Answer", "aria-busy": "true" }, body, status, foot);
  const texts = new Map(); // "answer:index" → { node, answer }
  const thoughts = new Map();
  const questions = new Map(); // id → { id, card, call, open }
  const calls = liveCalls((card) => body.append(card));
  let answers = 0;
  let suspended = false;

  let doing = status.textContent;
  let since = Date.now();
  let routing = null; // the text about a phase before the answer
  const running = new Map(); // call_id → name
  const count = setInterval(show, 500);

  function show() {
    const seconds = Math.floor((Date.now() - since) / 1000);
    status.lastElementChild.textContent = seconds < PATIENCE_S || doing === WRITING || suspended ? doing : `${doing} ${seconds} s`;
  }

  function say(text) {
    if (text === doing) return;
    [doing, since] = [text, Date.now()];
    show();
  }

  function wait() {
    const names = [...running.values()];
    say(names.length ? `Running ${names.at(-1)}…` : "Waiting for the model…");
  }

  /** Show a question; one that is asked again keeps its form, with what is typed in it. */
  function asked(question) {
    const known = questions.get(question.id);
    if (known) known.open = true;
    else questions.set(question.id, { id: question.id, card: questionCard(question), call: question.call_id, open: true });
    body.append(questions.get(question.id).card.node);
    if (!known) announce(`${question.tool} ${question.digest ? "needs approval" : "asks"}: ${question.message}`);
  }

  function textAt(index) {
    const key = `${answers}:${index}`;
    if (!texts.has(key)) {
      const one = { answer: answers, node: h("div", { class: "markdown plain", dir: "auto" }) };
      texts.set(key, one);
      body.append(one.node);
    }
    return texts.get(key).node;
  }

  function thoughtAt(index) {
    const key = `${answers}:${index}`;
    if (!thoughts.has(key)) {
      const one = thought("");
      thoughts.set(key, one.lastElementChild);
      body.append(one);
    }
    return thoughts.get(key);
  }

  const on = {
    text({ index, text }) {
      say(WRITING);
      textAt(index).append(displayText(text));
    },
    reasoning({ index, text }) {
      say("Thinking…");
      thoughtAt(index).append(displayText(text));
    },
    tool_call: ({ name }) => say(`Calling ${name}…`),
    phase_started({ phase }) {
      routing = PHASES[phase];
      say(routing || "Waiting for the model…");
    },
    model_request_started: ({ llm, model }) => routing || say(`Waiting for ${model || llm}…`),
    tool_started({ call_id: id, name }) {
      running.set(id, name);
      wait();
    },
    tool_progress({ name, progress, total, message }) {
      const told = total === 1 ? `${Math.round(progress * 100)} %` : total === 100 ? `${progress} %` : total === null ? `${progress}` : `${progress} of ${total}`;
      say(`Running ${name}: ${told}${message ? `, ${message}` : ""}`);
    },
    question(question) {
      asked(question);
      say("Waiting for a reply…");
    },
    question_answered({ id, ...reply }) {
      close(questions.get(id), reply);
      wait();
    },
    suspended({ content, tool_calls: done, pending }) {
      if (!body.childElementCount) {
        for (const call of done || []) body.append(toolCallCard.of(call)); // nothing of it was streamed
        if (content) textAt(0).append(displayText(content));
      }
      for (const { question } of pending) questions.get(question.id)?.open || asked(question);
      be(true);
      say(`Suspended: it goes on after a reply to ${pending.length > 1 ? `one of its ${pending.length} questions` : "its question"}.`);
    },
    tool_finished({ call_id: id }) {
      running.delete(id);
      wait();
    },
    answer_end: () => (answers += 1),
    turn_resumed() {
      body.replaceChildren(); // its final content follows; its questions return to their calls
      be(false);
      for (const question of questions.values()) if (question.open) look(question);
      for (const known of [texts, thoughts, running]) known.clear();
      calls.clear();
      [answers, routing] = [0, null];
      wait();
    },
  };

  function close(question, reply) {
    if (!question?.open) return;
    question.open = false;
    question.card.close(reply);
  }

  /** Close a question that got its reply while the turn was suspended. */
  async function look(question) {
    question.open = false; // so that the end of the turn leaves it alone meanwhile
    const { state, reply } = await get(`api/questions/${encodeURIComponent(question.id)}`).catch(() => ({ state: "open" }));
    question.open = state === "open";
    if (!question.open) question.card.close(reply || { action: "cancel", why: state });
    else if (!node.hasAttribute("aria-busy")) close(question, { action: "cancel" });
  }

  function be(isSuspended) {
    suspended = isSuspended;
    node.toggleAttribute("data-suspended", suspended);
    node.setAttribute("aria-busy", String(!suspended));
  }

  const ended = () => {
    for (const question of questions.values()) close(question, { action: "cancel" });
    clearInterval(count);
    be(false);
    status.remove();
    node.removeAttribute("aria-busy");
  };

  async function render() {
    await Promise.all(
      [...texts.values()].map(async (one) => {
        const text = one.node.textContent;
        if (text.trim()) one.node.replaceWith(await markdown(text));
        else one.node.remove();
      }),
    );
  }

  return {
    node,
    take({ event, data }) {
      on[event]?.(data);
      calls.take({ event, data });
      if (event !== "tool_started") return;
      for (const { call, card } of questions.values()) if (call === data.call_id && !card.node.isConnected) body.append(card.node);
    },
    broken: () => say("The connection is lost; joining again…"),
    said: () => [...texts.values()].map((one) => one.node.textContent).join("\n\n").trim(),
    async finish(turn, about) {
      const last = Math.max(-1, ...[...texts.values()].map((one) => one.answer));
      const shown = [...texts.values()].filter((one) => one.answer === last).map((one) => one.node.textContent).join("");
      if (turn.content && shown !== displayText(turn.content)) {
        answers = last + 1;
        textAt(0).append(displayText(turn.content));
      }
      if (turn.media) body.append(mediaList(turn.media, { label: "Media of the answer" }));
      calls.stop();
      ended();
      replace(foot, facts(turn, about));
      await render();
    },
    async fail(error, again) {
      calls.stop();
      ended();
      const isBegun = [...texts.values()].some((one) => one.node.textContent.trim());
      replace(foot, failure(error, again, isBegun));
      await render();
    },
    async stop(again) {
      calls.stop();
      ended();
      replace(foot, interruptedNote(again));
      await render();
    },
  };
}

/** Return the element of an answer that was streaming when the page was left. */
export function interruptedAnswer(again) {
  return h("article", { class: "message answer", "aria-label": "Answer" }, h("div", { class: "answer-foot" }, interruptedNote(again)));
}

function interruptedNote(again) {
  return h(
    "div",
    { class: "row" },
    badge("stopped", "warn", "stop"),
    h("span", { class: "muted small-text" }, "This answer was interrupted before its end."),
    button("Ask again", { icon: "retry", kind: "quiet small", onClick: again }),
  );
}

function failure(error, again, isBegun) {
  return errorCard(error, { retry: again, title: isBegun ? "The answer broke off." : "No answer." });
}

function thought(text) {
  return h("details", { class: "thought" }, h("summary", {}, icon("right"), "Reasoning"), h("div", { class: "thought-text", dir: "auto" }, text));
}

/** Return the element of a turn of a stored conversation; again repeats its request. */
export function storedAnswer(turn, { conversation, again }) {
  const body = h("div", { class: "answer-body" });
  const results = new Map(turn.messages.filter((one) => one.role === "tool").map((one) => [one.tool_call_id, one]));
  const records = [...(turn.tool_calls || [])];
  let round = 0;
  let content = "";
  const asked = turn.messages.find((one) => one.role === "user")?.content;
  for (const message of turn.messages) {
    if (message.role !== "assistant") continue;
    const parts = message.parts || [];
    round += 1;
    content = parts.map((part) => (part.type === "text" || part.type === "refusal" ? part.text : "")).join("");
    for (const part of parts) {
      if (part.type === "reasoning" && part.text) body.append(thought(part.text));
      else if ((part.type === "text" || part.type === "refusal") && part.text.trim()) {
        const place = h("div", { class: "markdown plain", dir: "auto" }, part.text);
        body.append(place);
        markdown(part.text).then((rendered) => place.replaceWith(rendered));
      } else if (part.type === "media") body.append(mediaList([part]));
      else if (part.type === "tool_call") {
        const call = { tool: part.name, params: part.arguments ?? {}, raw_arguments: part.arguments ? null : part.raw_arguments };
        const record = taken(records, (one) => one.iteration === round && one.tool === call.tool && same(one, call));
        const sent = results.get(part.id);
        const shown = record || { ...call, result: resultOf(sent), iteration: round };
        // The content sent to the model is in its message; the record only refers to it.
        body.append(toolCallCard.of(sent?.media ? { ...shown, result: { ...shown.result, media: sent.media } } : shown));
      }
    }
  }
  const ended = { cancelled: () => interruptedNote(again), failed: () => failure({ message: turn.error }, again, Boolean(content.trim())) }[turn.status];
  const foot = h("div", { class: "answer-foot" }, ended?.(), facts({ ...turn, content }, { conversation, asked }));
  return h("article", { class: "message answer", "aria-label": "Answer" }, body, foot);
}

function taken(list, fits) {
  const at = list.findIndex(fits);
  return at < 0 ? null : list.splice(at, 1)[0];
}

function same(record, call) {
  const text = ({ params, raw_arguments: raw }) => raw ?? JSON.stringify(params);
  return text(record) === text(call);
}

/** Return a tool's result in the form sent to the model: turns of earlier versions only have this. */
function resultOf(message) {
  if (!message) return { success: false, error: "No result was kept." };
  try {
    const data = JSON.parse(message.content);
    if (typeof data.success === "boolean") return data;
  } catch {
    // A result that was truncated for the model is text.
  }
  return message.is_error ? { success: false, error: message.content } : { success: true, result: message.content };
}

function facts(turn, { conversation, asked }) {
  const { input_tokens: input, output_tokens: output } = turn.usage || {};
  const model = [turn.service, turn.model].filter((part, at, all) => part && part !== all[at - 1]).join(" / ");
  const told = [
    turn.topic && turn.topic !== asked?.trim() && badge(turn.topic, "", null, { title: "Topic" }),
    model && h("span", { title: "Service and model" }, model),
    input || output ? h("span", { title: `${input ?? 0} read, ${output ?? 0} written` }, `${((input || 0) + (output || 0)).toLocaleString()} tokens`) : null,
    costNode(turn.cost),
    turn.elapsed_ms > 0 && h("span", { title: "Time of the whole turn" }, ms(turn.elapsed_ms)),
    turn.at && when(turn.at),
    h("a", { href: `#/explain/${encodeURIComponent(conversation)}/${encodeURIComponent(turn.id)}` }, "Why this rule?"),
  ];
  return [
    turn.citations?.length > 0 && sources(turn.citations),
    turn.max_iterations_reached && alert("warn", h("p", {}, "The limit of tool rounds was reached before the model was done.")),
    turn.warnings?.length > 0 && alert("warn", h("ul", {}, turn.warnings.map((text) => h("li", {}, text)))),
    h("div", { class: "facts" }, told, turn.content && copyButton(turn.content, "Copy the answer")),
  ];
}

function sources(citations) {
  return h(
    "details",
    { class: "sources" },
    h("summary", {}, icon("right"), citations.length === 1 ? "1 source" : `${citations.length} sources`),
    h(
      "ol",
      {},
      citations.map((one) =>
        h(
          "li",
          {},
          h("strong", {}, one.title),
          one.source && one.source !== one.title && h("span", { class: "muted" }, ` ${one.source}`),
          " ",
          (one.store || one.collection) && badge([one.store, one.collection].filter(Boolean).join("/")),
          " ",
          one.named && badge("named in the answer", "ok", "check"),
        ),
      ),
    ),
  );
}
