// Explain: the routing of a message, phase by phase, and the rule that would answer it. Nothing is answered.

import { h, replace, announce } from "../dom.js";
import { alert, badge, busy, button, errorCard, pageHead } from "../elements.js";
import { post } from "../api.js";
import { rename } from "../router.js";
import { conditionList, ruleName } from "../rule_labels.js";
import { timeline } from "./explain_phases.js";
import { answeredTurn } from "./explain_turn.js";

export const title = "Explain";

/** Show the page. #/explain?prompt=TEXT asks about a message; #/explain/CONVERSATION/TURN shows a turn that was answered. */
export async function mount(root, { rest, query }) {
  if (rest.length === 2) return answeredTurn(root, ...rest);
  const prompt = h("textarea", { class: "input", id: "explain-message", dir: "auto", rows: "2", placeholder: "What is 17% of 230?", value: query.get("prompt") || "" });
  const topic = h("input", { class: "input", id: "explain-topic", dir: "auto", type: "text", autocomplete: "off" });
  const run = button("Explain", { icon: "explain", kind: "primary", type: "submit" });
  const out = h("div", { class: "stack" });
  const problem = h("p", { class: "field-problem", id: "explain-problem", role: "alert" });
  prompt.setAttribute("aria-describedby", "explain-problem");
  const form = h(
    "form",
    { class: "card explain-form", novalidate: true },
    h("div", { class: "field" }, h("label", { for: "explain-message" }, "Message"), prompt, problem),
    h("div", { class: "explain-row" }, h("div", { class: "field grow" }, h("label", { for: "explain-topic" }, "Topic so far ", h("span", { class: "muted" }, "(optional)")), topic), run),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    problem.textContent = text ? "" : "Write the message that is to be explained.";
    prompt.toggleAttribute("aria-invalid", !text);
    if (!text) return prompt.focus();
    rename("explain");
    try {
      const found = await busy(run, post("api/explain", { prompt: text, topic: topic.value.trim() || null }));
      replace(out, verdictView(found), h("div", { class: "explain-columns" }, timeline(found.phases), rules(found)));
      announce(found.rule === null ? "No rule fits." : `${ruleName(found.rule, found.rules[found.rule]?.name)} answers.`);
    } catch (error) {
      replace(out, errorCard(error));
    }
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  root.append(pageHead(title, "Why would this rule answer? The phases before the answer, as they go for a message of yours; models that phases need are asked, the answer itself is not written."), form, out);
  if (prompt.value) form.requestSubmit();
}

function verdictView({ rule, rules: all, tools }) {
  if (rule === null) return alert("bad", h("p", {}, h("strong", {}, "No rule fits."), " Add one without conditions at their end."));
  const { llm, model, name } = all[rule];
  return alert("ok", h("p", {}, h("strong", {}, `${ruleName(rule, name)} answers`), `, with ${llm}${model && model !== llm ? ` (${model})` : ""}${tools.length ? ` and the tools ${tools.join(", ")}` : ""}.`));
}

function rules({ rule: chosen, verdicts, rules: all }) {
  return h(
    "section",
    { class: "stack", "aria-labelledby": "explain-rules" },
    h("h2", { id: "explain-rules" }, "Rules"),
    h("p", { class: "muted small-text" }, "Looked at from top to bottom; the first one that fits answers."),
    h(
      "ol",
      { class: "rules" },
      all.map((rule, index) => {
        const verdict = verdicts.find((one) => one.rule === index);
        const wins = index === chosen;
        const state = wins ? badge("answers", "ok", "check") : !verdict ? badge("not looked at") : verdict.fits ? badge("fits, but an earlier one answers") : badge("does not fit", "", "close");
        return h(
          "li",
          { class: ["card", wins && "wins"] },
          h("div", { class: "spread" }, h("h3", {}, ruleName(index, rule.name), h("span", { class: "muted" }, ` ${rule.llm}${rule.model && rule.model !== rule.llm ? ` / ${rule.model}` : ""}`)), state),
          conditionList(rule.match, verdict),
        );
      }),
    ),
  );
}
