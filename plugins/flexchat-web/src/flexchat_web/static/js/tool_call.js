// A tool call as a card, from the model's first characters to the result.
//   const card = toolCallCard({ name: "calculator" });  list.append(card.node)
//   card.write('{"expr')          the arguments as the model writes them
//   card.start({ expression })    it runs; a string: arguments that cannot be parsed
//   card.finish({ success, result | error, execution_time_ms, media, left_out }, { iteration, params, raw_arguments, facts })
//   card.stop()                   it was cancelled
// A finished call of a turn: toolCallCard.of({ tool, params, raw_arguments, result, iteration })

import { displayText, h, icon, replace } from "./dom.js";
import { badge, ms } from "./elements.js";
import { jsonView, codeView } from "./json_view.js";
import { mediaList } from "./media.js";

const STATES = {
  writing: ["being written", "accent", "pencil"],
  running: ["running", "accent", "running"],
  ok: ["succeeded", "ok", "ok"],
  failed: ["failed", "bad", "failed"],
  unknown: ["unknown", "warn", "warning"],
  stopped: ["stopped", "warn", "stop"],
};

/** Return a card: { node, write, start, finish, stop }. */
export function toolCallCard({ name, open = false }) {
  const state = h("span", { class: "tool-call-state" });
  const time = h("span", { class: "tool-call-time" });
  const round = h("span", { class: "tool-call-time" });
  const preview = h("code", { class: "tool-call-preview" });
  const args = h("div", {});
  const result = h("div", {});
  let written = "";
  const node = h(
    "details",
    { class: "tool-call", open },
    h("summary", {}, icon("right"), h("span", { class: "tool-call-name" }, name), preview, h("span", { class: "tool-call-end" }, round, time, state)),
    h("div", { class: "tool-call-body" }, args, result),
  );
  const be = (word) => {
    node.dataset.state = word;
    const [text, kind, picture] = STATES[word];
    replace(state, badge(text, kind, picture));
  };
  const showArguments = (value) => {
    preview.textContent = shortly(value);
    replace(args, h("h4", {}, "Arguments"), view(value ?? {}, "arguments"));
  };
  be("writing");
  return {
    node,
    write(part) {
      written += part;
      showArguments(written);
    },
    start(value) {
      be("running");
      showArguments(value);
    },
    finish(outcome, { iteration, params, raw_arguments: raw, facts } = {}) {
      const unknown = facts?.effect?.state === "unknown" && facts.effect.key;
      be(outcome.success ? "ok" : unknown ? "unknown" : "failed");
      if (unknown) node.open = true;
      if ((raw ?? params) !== undefined) showArguments(raw ?? params);
      time.textContent = ms(outcome.execution_time_ms);
      if (iteration) round.textContent = `round ${iteration}`;
      replace(
        result,
        h("h4", {}, outcome.success ? "Result" : "Error"),
        !outcome.success ? toolError(outcome) : isOnlyMedia(outcome) ? null : view(outcome.result, "result"),
        mediaView(outcome),
        unknown && h("p", {}, h("a", { href: `#/activity/effects/${encodeURIComponent(unknown)}` }, "Say whether it happened")),
      );
    },
    stop() {
      if (node.dataset.state === "writing" || node.dataset.state === "running") be("stopped");
    },
  };
}

/** Return the element of a call that is over. */
toolCallCard.of = ({ tool, result, ...call }, open = false) => {
  const card = toolCallCard({ name: tool, open });
  card.finish(result, call);
  return card.node;
};

/** Return the error and, below it, the hint. */
export function toolError({ error, hint }) {
  return [h("p", { class: "tool-call-error" }, String(error ?? "It failed without saying why.")), hint && h("p", { class: "muted" }, hint)];
}

/** Whether a result consists of media only. */
export function isOnlyMedia({ success, result, media }) {
  return success && (result ?? "") === "" && media?.length > 0;
}

/** Return a result's media; nothing if there are none. */
export function mediaView({ media, left_out: more }) {
  return mediaList(media, { more });
}

function view(value, label) {
  return typeof value === "string" ? codeView(value, { label }) : jsonView(value, { label });
}

function shortly(value) {
  if (typeof value === "string") return displayText(value.slice(0, 200));
  if (!value || typeof value !== "object") return "";
  return Object.entries(value)
    .map(([key, item]) => displayText(`${key}: ${typeof item === "string" ? item : JSON.stringify(item)}`))
    .join(", ")
    .slice(0, 200);
}
