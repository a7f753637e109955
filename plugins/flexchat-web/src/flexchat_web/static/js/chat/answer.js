// An answer: its texts, its tool calls as they run, and where it came from.
//   const answer = answerView();  list.append(answer.node)
//   answer.take({ event, data }) for each event of a turn; answer.finish(turn) | answer.fail(error, retry) | answer.stop(retry)
//   interruptedAnswer(retry): one that was cut off by leaving the page
//   storedAnswer(turn): the same for a turn of a kept conversation
// A node goes on being written to while it is out of the document: another session may be shown meanwhile.

import { h, icon, replace } from "../dom.js";
import { alert, badge, button, copyButton, errorCard, ms, when } from "../elements.js";
import { liveCalls } from "../live_calls.js";
import { markdown } from "../markdown.js";
import { toolCallCard } from "../tool_call.js";

/** Return an answer that is being written. */
export function answerView({ prompt = "" } = {}) {
  const body = h("div", { class: "answer-body" });
  const status = h("p", { class: "answer-status" }, h("span", { class: "pulse", "aria-hidden": "true" }), h("span", {}, "Waiting for the model…"));
  const foot = h("div", { class: "answer-foot" });
  const node = h("article", { class: "message answer", "aria-label": "Answer", "aria-busy": "true" }, body, status, foot);
  const texts = new Map(); // "answer:index" → { node, answer }
  const thoughts = new Map();
  const calls = liveCalls((card) => body.append(card));
  let answers = 0;

  const say = (text) => (status.lastElementChild.textContent = text);

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
      const text = h("div", { class: "thought-text", dir: "auto" });
      thoughts.set(key, text);
      body.append(h("details", { class: "thought" }, h("summary", {}, icon("right"), "Reasoning"), text));
    }
    return thoughts.get(key);
  }

  const on = {
    text({ index, text }) {
      say("Writing…");
      textAt(index).append(text);
    },
    reasoning({ index, text }) {
      say("Thinking…");
      thoughtAt(index).append(text);
    },
    tool_call: ({ name }) => say(`Calling ${name}…`),
    tool_started: ({ name }) => say(`Running ${name}…`),
    tool_finished: () => say("Waiting for the model…"),
    answer_end: () => (answers += 1),
  };

  const ended = () => {
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
    },
    async finish(turn) {
      const last = Math.max(-1, ...[...texts.values()].map((one) => one.answer));
      const shown = [...texts.values()].filter((one) => one.answer === last).map((one) => one.node.textContent).join("");
      if (turn.content && shown !== turn.content) {
        answers = last + 1;
        textAt(0).append(turn.content);
      }
      calls.stop();
      ended();
      replace(foot, facts(turn, prompt));
      await render();
    },
    async fail(error, retry) {
      calls.stop();
      ended();
      replace(foot, errorCard(error, { retry, title: "No answer." }));
      await render();
    },
    async stop(retry) {
      calls.stop();
      ended();
      replace(foot, cutShort(badge("stopped", "warn", "stop"), "This turn is not kept.", retry));
      await render();
    },
  };
}

/** Return the element of an answer that was being written when the page was left. */
export function interruptedAnswer(retry) {
  const said = cutShort(badge("interrupted", "warn", "warning"), "This answer was interrupted, and is not kept.", retry);
  return h("article", { class: "message answer", "aria-label": "Answer" }, h("div", { class: "answer-foot" }, said));
}

function cutShort(mark, text, retry) {
  return h("div", { class: "row" }, mark, h("span", { class: "muted small-text" }, text), button("Ask again", { icon: "retry", kind: "quiet small", onClick: retry }));
}

/** Return the element of a turn of a kept conversation. */
export function storedAnswer(turn) {
  const body = h("div", { class: "answer-body" });
  const results = new Map(turn.messages.filter((one) => one.role === "tool").map((one) => [one.tool_call_id, one]));
  let round = 0;
  let content = "";
  const asked = turn.messages.find((one) => one.role === "user")?.content;
  for (const message of turn.messages) {
    if (message.role !== "assistant") continue;
    const parts = message.parts || [];
    round += 1;
    content = parts.map((part) => (part.type === "text" || part.type === "refusal" ? part.text : "")).join("");
    for (const part of parts) {
      if ((part.type === "text" || part.type === "refusal") && part.text.trim()) {
        const place = h("div", { class: "markdown plain", dir: "auto" }, part.text);
        body.append(place);
        markdown(part.text).then((rendered) => place.replaceWith(rendered));
      } else if (part.type === "tool_call") {
        const call = { tool: part.name, params: part.arguments ?? {}, raw_arguments: part.arguments ? null : part.raw_arguments };
        body.append(toolCallCard.of({ ...call, result: resultOf(results.get(part.id)), iteration: round }));
      }
    }
  }
  return h("article", { class: "message answer", "aria-label": "Answer" }, body, h("div", { class: "answer-foot" }, facts({ ...turn, content }, asked)));
}

function resultOf(message) {
  if (!message) return { success: false, error: "No result was kept." };
  try {
    const data = JSON.parse(message.content);
    if (typeof data.success === "boolean") return data;
  } catch {
    // A result that was shortened for the model is text.
  }
  return message.is_error ? { success: false, error: message.content } : { success: true, result: message.content };
}

function facts(turn, prompt) {
  const { input_tokens: input, output_tokens: output } = turn.usage || {};
  const model = [turn.service, turn.model].filter((part, at, all) => part && part !== all[at - 1]).join(" / ");
  const told = [
    turn.topic && turn.topic !== prompt?.trim() && badge(turn.topic, "", null, { title: "Topic" }),
    model && h("span", { title: "Service and model" }, model),
    input || output ? h("span", { title: `${input ?? 0} read, ${output ?? 0} written` }, `${((input || 0) + (output || 0)).toLocaleString()} tokens`) : null,
    turn.elapsed_ms !== undefined && h("span", { title: "Time of the whole turn" }, ms(turn.elapsed_ms)),
    turn.at && when(turn.at),
    prompt && h("a", { href: `#/explain?${new URLSearchParams({ prompt })}` }, "Why this rule?"),
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
          (one.service || one.collection) && badge([one.service, one.collection].filter(Boolean).join("/")),
          " ",
          one.named && badge("named in the answer", "ok", "check"),
        ),
      ),
    ),
  );
}
