// Sections that are one table each: Topic, Intent, and all other tables.

import { h } from "../dom.js";
import { entryForm } from "./entry_form.js";
import { foldCard } from "./fold_card.js";
import { problemMarks } from "./marks.js";
import { promptField } from "./prompt_field.js";
import { withChoices } from "./rules.js";

/** Return the section of phase 1. */
export function topicSection(draft) {
  return together("What each message is about. Without a model, the topic is cut from the message.", [
    entryForm(draft, ["topic"], { $ref: "#/$defs/TopicTable" }, { keys: ["llm", "model", "max_tokens"], adapt: (whole, value) => withChoices(draft, whole, value) }),
    promptField(draft, ["topic", "prompt"], { label: "Prompt of your own", hint: "Empty: the built-in one.", variables: ["currentTopic", "conversationContext", "userMessage"] }),
  ]);
}

/** Return the section of phase 3. */
export function intentSection(draft) {
  return together("What the user wants, as one of your categories: rules can ask for it.", [
    entryForm(draft, ["intent"], { $ref: "#/$defs/IntentTable" }, { adapt: (whole, value) => withChoices(draft, whole, value) }),
  ]);
}

const REST = [
  ["embedding", "EmbeddingChoice", "Embedding"],
  ["conversations", "ConversationsTable", "Conversations"],
  ["limits", "LimitsTable", "Limits of a turn"],
  ["network", "NetworkTable", "Addresses tools may reach"],
  ["validation", "ValidationTable", "Validation"],
  ["plugins", "PluginsTable", "Plugins"],
];

/** Return the section of all other tables. */
export function restSection(draft) {
  const cards = REST.filter(([, def]) => draft.schema.$defs?.[def]).map(([name, def, label]) => {
    const head = () => ({ title: label, summary: draft.at([name]) === undefined ? "not set" : Object.keys(draft.at([name])).join(", "), marks: problemMarks(draft, [name]) });
    const keys = (whole) => Object.keys(whole.properties).filter((key) => !(name === "validation" && ["cases", "prices"].includes(key)));
    const body = () => {
      const form = entryForm(draft, [name], { $ref: `#/$defs/${def}` }, { keys });
      const hint = name === "validation" && h("p", { class: "muted" }, "Cases and prices are written in the text.");
      return { node: h("div", { class: "stack" }, hint, form.node), update: form.update };
    };
    const card = foldCard({ ...head(), body });
    return { name, card, head };
  });
  return {
    node: h("div", { class: "stack tight" }, cards.map((one) => one.card.node)),
    update(what) {
      for (const { card, head } of cards) {
        card.head(head());
        card.update(what);
      }
    },
    reveal(path) {
      const found = cards.find((one) => one.name === path[0]);
      if (found) found.card.open = true;
    },
  };
}

function together(lead, parts) {
  return {
    node: h("div", { class: "stack" }, h("p", { class: "muted" }, lead), parts.map((part) => part.node)),
    update: (what) => parts.forEach((part) => part.update(what)),
    reveal() {},
  };
}
