// Explain: how a message would be understood, phase by phase, and which rule would answer it. Nothing is answered.

import { h, icon, replace, announce } from "../dom.js";
import { alert, badge, busy, button, errorCard, ms, pageHead } from "../elements.js";
import { post } from "../api.js";
import { jsonView } from "../json_view.js";
import { rename } from "../router.js";

export const title = "Explain";

const MEANING = {
  "topic detection": "What is the conversation about?",
  "rag collection": "Do documents fit?",
  "intent detection": "What does the user want?",
  "profile building": "All that is known of the message",
  "response matching": "Which rule fits first?",
};

export async function mount(root, { query }) {
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
      announce(found.rule === null ? "No rule fits." : `Rule ${found.rule} answers.`);
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

function verdictView({ rule, rules: all }) {
  if (rule === null) return alert("bad", h("p", {}, h("strong", {}, "No rule fits."), " Add one without conditions at their end."));
  const { llm, model } = all[rule];
  return alert("ok", h("p", {}, h("strong", {}, `Rule ${rule} answers`), `, with ${llm}${model && model !== llm ? ` (${model})` : ""}.`));
}

function timeline(phases) {
  return h(
    "section",
    { class: "stack", "aria-labelledby": "explain-phases" },
    h("h2", { id: "explain-phases" }, "Phases"),
    h(
      "ol",
      { class: "timeline" },
      phases.map((one, index) =>
        h(
          "li",
          { class: [one.skipped && "skipped", one.warnings?.length && "warned"] },
          h("span", { class: "timeline-mark", "aria-hidden": "true" }, String(index + 1)),
          h(
            "div",
            { class: "timeline-body" },
            h("div", { class: "spread" }, h("h3", { title: one.phase === "rag collection" ? "The Node original calls it RAG collection." : null }, one.phase === "rag collection" ? "document search" : one.phase), one.skipped ? badge("not run") : h("span", { class: "muted small-text" }, ms(one.elapsed_ms), tokens(one.usage))),
            h("p", { class: "muted small-text" }, one.skipped ? `Not run: ${one.skipped}.` : MEANING[one.phase]),
            !one.skipped && h("p", {}, outcome(one)),
            one.warnings?.length > 0 && alert("warn", h("ul", {}, one.warnings.map((text) => h("li", {}, text)))),
            !one.skipped &&
              h(
                "details",
                { class: "lint" },
                h("summary", {}, icon("right"), h("span", { class: "small-text muted" }, "Details")),
                h("div", { class: "stack tight" }, one.input !== undefined && [h("h4", {}, "Input"), jsonView(one.input, { label: "input" })], h("h4", {}, "Outcome"), jsonView(one.outcome, { label: "outcome" })),
              ),
          ),
        ),
      ),
    ),
  );
}

function tokens(usage) {
  const count = (usage?.input_tokens || 0) + (usage?.output_tokens || 0);
  return count ? ` · ${count} tokens` : "";
}

function outcome({ phase, outcome: found }) {
  if (found === null || found === undefined) return h("span", { class: "muted" }, "nothing");
  if (typeof found !== "object") return h("strong", {}, String(found));
  if (phase === "topic detection") return [h("strong", {}, found.topic), " ", badge(String(found.status || "").replaceAll("_", " "))];
  if (phase === "rag collection") {
    const hits = [found.data ?? []].flat();
    return [h("strong", {}, found.result), hits.map((hit) => h("span", { class: "hit" }, [hit.service, hit.collection].filter(Boolean).join("/"), hit.distance !== undefined && ` at distance ${hit.distance.toFixed(3)}`, hit.documents?.length && `: ${[hit.documents].flat().join(", ")}`))];
  }
  if (phase === "response matching") return h("strong", {}, `rule ${found.rule} (${found.llm})`);
  const known = Object.entries(found).filter(([, value]) => value !== null && value !== 0 && value !== "");
  return known.map(([key, value]) => [badge(`${key} ${typeof value === "object" ? JSON.stringify(value) : value}`), " "]);
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
          h("div", { class: "spread" }, h("h3", {}, `Rule ${index}`, h("span", { class: "muted" }, ` ${rule.llm}${rule.model && rule.model !== rule.llm ? ` / ${rule.model}` : ""}`)), state),
          conditions(rule.match, verdict),
        );
      }),
    ),
  );
}

function conditions(match, verdict) {
  const wanted = Object.entries(match || {});
  const failed = verdict?.failed || [];
  if (!wanted.length) return h("p", { class: "muted" }, "No condition: fits everything.");
  const about = (key) => failed.filter((text) => text.startsWith(key));
  const others = failed.filter((text) => !wanted.some(([key]) => text.startsWith(key)));
  return h(
    "ul",
    { class: "conditions" },
    wanted.map(([key, value]) => {
      const why = about(key);
      return h(
        "li",
        { class: !verdict ? "" : why.length ? "bad" : "ok" },
        verdict && (why.length ? icon("close", "not met:") : icon("check", "met:")),
        h("span", {}, h("code", {}, `${key} = ${JSON.stringify(value)}`), why.length > 0 && h("span", { class: "muted block" }, why.join("; "))),
      );
    }),
    others.map((text) => h("li", { class: "bad" }, icon("close", "not met:"), h("span", {}, text))),
  );
}
