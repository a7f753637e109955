// The section Rules: the response rules in their order; the first that fits a message answers it.

import { h, replace } from "../dom.js";
import { button, iconButton, badge, alert } from "../elements.js";
import { toast } from "../dialog.js";
import { ruleName } from "../rule_labels.js";
import { conditionsEditor, conditionText } from "./conditions.js";
import { entryForm } from "./entry_form.js";
import { foldCard } from "./fold_card.js";
import { problemMarks, sentencesAt } from "./marks.js";
import { promptField } from "./prompt_field.js";

const VARIABLES = ["user_message", "rag_context", "topic", "intent", "service", "collection"];
const MODEL_KEYS = ["llm", "model", "max_tokens", "temperature"];
const ELSEWHERE = [...MODEL_KEYS, "prompt", "match", "tools"];

/** Return the section: { node, update }. */
export function rulesSection(draft) {
  const list = h("ol", { class: "stack tight rule-cards" });
  const add = button("Add a rule", { icon: "plus", disabled: !draft.editable, onClick: () => insert() });
  const node = h("div", { class: "stack" }, h("p", { class: "muted" }, "The first rule whose conditions hold answers: its response handler, as the Node original calls it. Keep one without conditions at the end. In the text: ", h("code", {}, "responses"), "."), list, h("div", {}, add));
  let cards = [];

  const rules = () => draft.at(["responses"]) || [];

  function update(what) {
    const now = rules();
    while (cards.length > now.length) cards.pop().item.remove();
    while (cards.length < now.length) {
      const card = make(cards.length);
      cards.push(card);
      list.append(card.item);
    }
    for (const [index, card] of cards.entries()) {
      card.head(head(index));
      card.limits();
      card.update(what);
    }
  }

  function head(index) {
    const rule = rules()[index] || {};
    const tools = rule.tools && rule.tools.enabled !== false;
    return {
      title: `${ruleName(index, rule.name)}: ${[rule.llm || "no service", rule.model].filter(Boolean).join(" / ")}`,
      summary: conditionText(rule.match),
      marks: [tools && badge("tools", "accent", "wrench"), ...problemMarks(draft, ["responses", index])].filter(Boolean),
    };
  }

  function make(index) {
    const editable = draft.editable;
    const up = iconButton("up", `Move rule ${index + 1} up`, () => move(index, index - 1));
    const down = iconButton("down", `Move rule ${index + 1} down`, () => move(index, index + 1));
    const copy = iconButton("copy", `Duplicate rule ${index + 1}`, () => duplicate(index), { disabled: !editable });
    const remove = iconButton("trash", `Delete rule ${index + 1}`, () => drop(index));
    const card = foldCard({ ...head(index), actions: [up, down, copy, remove], body: () => body(index) });
    return Object.assign(card, {
      item: h("li", {}, card.node),
      up,
      down,
      limits() {
        up.disabled = !editable || index === 0;
        down.disabled = !editable || index === rules().length - 1;
        remove.disabled = !editable || rules().length === 1;
      },
    });
  }

  function body(index) {
    const path = ["responses", index];
    const schema = { $ref: "#/$defs/ResponseRule" };
    const wrong = h("div", {});
    const parts = [
      entryForm(draft, path, schema, { keys: MODEL_KEYS, adapt: (whole, value) => withChoices(draft, whole, value) }),
      conditionsEditor(draft, [...path, "match"]),
      promptField(draft, [...path, "prompt"], { label: "System prompt", hint: "Variables are filled in for each message.", variables: VARIABLES }),
      entryForm(draft, path, schema, { keys: ["tools"], adapt: (whole, value) => withChoices(draft, whole, value) }),
      entryForm(draft, path, schema, { keys: (whole) => Object.keys(whole.properties).filter((key) => !ELSEWHERE.includes(key)), adapt: (whole, value) => withChoices(draft, whole, value) }),
    ];
    const more = h("details", { class: "more-settings" }, h("summary", {}, "More settings"), parts[4].node);
    const update = (what) => {
      for (const part of parts) part.update(what);
      replace(wrong, sentencesAt(draft, path).map((text) => alert("bad", h("p", {}, text))));
    };
    update("problems");
    return { node: h("div", { class: "stack" }, wrong, parts.slice(0, 4).map((part) => part.node), more), update };
  }

  async function insert() {
    const now = rules();
    const first = Object.keys(draft.at(["llms"]) || {})[0] || "";
    const last = now.length && !Object.keys(now.at(-1)?.match || {}).length;
    const at = last ? now.length - 1 : now.length; // a rule without conditions stays last
    const rule = { llm: first, ...(last ? { match: { topic_contains: "…" } } : {}), prompt: "You are a helpful assistant." };
    if (await draft.change([{ path: ["responses"], insert: rule, before: at }])) show(at);
  }

  async function duplicate(index) {
    if (await draft.change([{ path: ["responses"], insert: rules()[index], before: index + 1 }])) show(index + 1);
  }

  async function move(from, to) {
    const open = cards[from].open;
    const other = cards[to].open;
    if (!(await draft.change([{ path: ["responses", from], move_to: to }]))) return;
    cards[from].open = other;
    cards[to].open = open;
    const wanted = to < from ? cards[to].up : cards[to].down;
    (wanted.disabled ? cards[to].toggle : wanted).focus();
  }

  async function drop(index) {
    const before = draft.text;
    for (let at = index; at + 1 < cards.length; at += 1) cards[at].open = cards[at + 1].open;
    if (await draft.change([{ path: ["responses", index], remove: true }])) toast(`Rule ${index + 1} is deleted from the text.`, { action: ["Undo", () => draft.restore(before)], seconds: 8 });
  }

  function show(index) {
    cards[index].open = true;
    cards[index].toggle.focus();
    cards[index].node.scrollIntoView({ block: "nearest" });
  }

  update("data");
  return { node, update, reveal: (path) => path.length > 1 && cards[path[1]] && (cards[path[1]].open = true) };
}

/** Offer the configuration's names as choices; a name in use that does not exist remains a choice. */
export function withChoices(draft, schema, value) {
  const llms = Object.keys(draft.at(["llms"]) || {});
  const tools = (draft.at(["tools", "registry"]) || []).map((one) => one?.name).filter(Boolean);
  const properties = { ...schema.properties };
  const choose = (part, names, now) => ({ ...part, enum: [...new Set([...names, ...[now ?? []].flat()])].filter((one) => typeof one === "string") });
  if (properties.llm) properties.llm = choose(properties.llm, llms, value?.llm);
  if (properties.fallback && llms.length) properties.fallback = { ...properties.fallback, items: choose(properties.fallback.items || {}, llms, value?.fallback) };
  if (properties.tools && tools.length) {
    const rule = draft.schema.$defs?.RuleTools || {};
    const allowed = choose(rule.properties?.allowed_tools?.items || {}, tools, value?.tools?.allowed_tools);
    properties.tools = { ...rule, description: properties.tools.description, properties: { ...rule.properties, allowed_tools: { ...rule.properties?.allowed_tools, items: allowed } } };
  }
  return { ...schema, properties };
}
