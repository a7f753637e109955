// Approvals: questions that wait for a reply, replies that are remembered, and those of the past.
//   #/approvals      #/approvals/by-token/TOKEN: one question, by a link that needs no sign-in

import { announce, h, icon, replace, keyed } from "../../js/dom.js";
import { del, get, uiConfig } from "../../js/api.js";
import { onReturn } from "../../js/attention.js";
import { alert, badge, busy, button, counted, emptyState, errorCard, pageHead, spinner, when } from "../../js/elements.js";
import { confirmed, toast } from "../../js/dialog.js";
import { codeView } from "../../js/json_view.js";
import { questionCard } from "../../js/chat/question.js";
import { showCount } from "../../js/nav_count.js";
import { factList, originLinks } from "../../js/activity/labels.js";

export const title = "Approvals";

const LOOK_MS = 3000; // interval between requests for what others have asked and replied
const PAGE = 100;
const MAX_OPEN = 500;
const MAX_COUNTED = 100;
const PREVIEW_CHARS = 200;
const OUTCOMES = { accept: ["approved", "ok", "ok"], decline: ["rejected", "bad", "failed"], cancel: ["not answered", "", "stop"] };
const ANSWERS = { accept: ["answered", "ok", "ok"], decline: ["declined", "bad", "failed"], cancel: ["not answered", "", "stop"] };
const ENDED = { expired: ["expired", "warn", "history"], withdrawn: ["withdrawn", "", "close"] };
const NONE = { replied: "No question has been replied to yet.", expired: "No question has expired.", withdrawn: "No turn has ended before its question had a reply." };
const SCOPES = { "": "with any arguments, in this conversation", conversation: "with these arguments, in this conversation", always: "with these arguments, always" };

export async function mount(root, { rest: [kind, token] }) {
  if (kind === "by-token") return linkedQuestion(root, token || "");
  root.append(pageHead(title, "Calls that need a person's approval, and questions that wait for a reply."));
  const server = await uiConfig();
  if (!server.keeps_conversations) {
    root.append(alert("", h("p", {}, "This server keeps no conversations, so no question waits. A table ", h("code", {}, "[conversations]"), " in the configuration changes that.")));
    return undefined;
  }
  const past = pastList();
  const rules = ruleList();
  const open = openList(() => Promise.all([past.load(), rules.load()]));
  root.append(open.node, rules.node, past.node);
  await Promise.all([open.load(), rules.load(), past.load()]);
  return { unmount: open.stop };
}

/** The open questions: { node, load, stop }. onClosed(): one of them has a reply, or its time is over. */
function openList(onClosed) {
  const head = h("h2", { id: "approvals-open", tabindex: "-1" }, "Open");
  const trouble = h("div", { class: "approval-trouble", "aria-live": "polite" });
  const list = h("div", { class: "stack" }, spinner("Looking"));
  const foot = h("div", {});
  const node = h("section", { class: "stack", "aria-labelledby": head.id }, head, trouble, list, foot);
  const cards = new Map(); // id → { card, node, pending, closed }, the oldest first
  let most = PAGE;
  let timer = 0;
  let asked = 0;
  let stopped = false;

  async function load() {
    const now = (asked += 1);
    clearTimeout(timer);
    try {
      const { questions } = await get("api/questions", { state: "open", limit: most });
      if (now !== asked || stopped) return;
      replace(trouble);
      await show(questions);
    } catch (error) {
      if (now !== asked || stopped) return;
      if (!cards.size) replace(list);
      replace(trouble, errorCard(error, { reading: true, retry: load }));
      if (error.status === 401) return;
    }
    if (now === asked && !stopped && !document.hidden) timer = setTimeout(load, LOOK_MS);
  }

  async function show(questions) {
    const isFirst = list.querySelector(".spinner") !== null;
    const there = new Set(questions.map(({ id }) => id));
    const fresh = questions.filter(({ id }) => !cards.has(id));
    const ended = [...cards.values()].filter((one) => !one.closed && !there.has(one.pending.id));
    if (isFirst || (fresh.length && !cards.size)) replace(list);
    for (const pending of fresh.toReversed()) cards.set(pending.id, entry(pending));
    await Promise.all(ended.map(close));
    if (ended.length) onClosed();
    if (fresh.length && !isFirst) announce(fresh.length === 1 ? `${fresh[0].question.tool} ${fresh[0].question.digest ? "needs approval" : "asks"}` : `${fresh.length} new questions`);
    showCount("approvals", questions.length < MAX_COUNTED ? questions.length : `${MAX_COUNTED - 1}+`);
    replace(head, questions.length ? `Open (${questions.length === most ? `${most} or more` : questions.length})` : "Open");
    if (cards.size) keyed(list, newestFirst(), ({ pending }) => pending.id, ({ node: made }) => made);
    else if (!list.querySelector(".empty")) replace(list, emptyState("Nothing waits for a reply", h("p", {}, "A call that needs approval appears here as soon as a model makes it, and a question of a tool if the person who chats does not answer it at once.")));
    const more = questions.length === most && most < MAX_OPEN && button("Show more", { kind: "quiet", onClick: () => ((most = Math.min(MAX_OPEN, most + PAGE)), busy(more, load())) });
    replace(foot, more);
  }

  function newestFirst() {
    return [...cards.values()].sort((one, other) => (one.pending.asked_at < other.pending.asked_at ? 1 : -1));
  }

  function entry(pending) {
    const made = { pending, closed: false };
    const replied = () => {
      end(made);
      onClosed();
      load();
    };
    made.card = questionCard(pending.question, { onReplied: replied });
    made.node = h("article", { class: "approval" }, made.card.node, facts(pending));
    return made;
  }

  function end(one) {
    one.closed = true;
    one.node.classList.add("closed");
  }

  /** Show how a question has ended that was replied to elsewhere, or has expired. */
  async function close(one) {
    end(one);
    const now = await get(`api/questions/${encodeURIComponent(one.pending.id)}`).catch(() => null);
    one.card.close(now?.reply || { action: "cancel", why: now?.state === "expired" ? "its time is over" : "its turn has ended" });
  }

  const forget = onReturn(load);
  return {
    node,
    load,
    stop() {
      stopped = true;
      clearTimeout(timer);
      forget();
    },
  };
}

/** The remembered replies: { node, load }. */
function ruleList() {
  const list = h("ul", { class: "approval-rules" });
  const note = h("div", {});
  const head = h("h2", { id: "approvals-rules", tabindex: "-1" }, "Remembered");
  const node = h("section", { class: "stack", "aria-labelledby": head.id }, head, list, note);
  let rules = [];

  async function page(before) {
    return (await get("api/approvals/rules", { limit: PAGE, before })).rules;
  }

  async function load() {
    try {
      show((rules = await page()));
    } catch (error) {
      replace(list);
      replace(note, errorCard(error, { reading: true, retry: load }));
    }
  }

  function show(found) {
    keyed(list, rules, ({ id }) => id, row);
    const more = button("Show more", { kind: "quiet", onClick: () => busy(more, page(rules.at(-1).id)).then((next) => ((rules = [...rules, ...next]), show(next)), (error) => replace(note, errorCard(error))) });
    replace(note, found.length === PAGE ? more : !rules.length && h("p", { class: "muted" }, "No reply is remembered: each call is asked about."));
  }

  function row(rule) {
    const revoke = button("Revoke", { icon: "trash", kind: "small", onClick: () => end(rule, revoke) });
    const [text, kind, picture] = OUTCOMES[rule.reply?.action] || ["?"];
    return h(
      "li",
      { class: "card" },
      h("div", { class: "spread" }, h("div", { class: "row" }, badge(text, kind, picture), h("code", {}, rule.question.tool), h("span", {}, SCOPES[rule.reply?.remember] ?? rule.reply?.remember)), revoke),
      rule.question.arguments_text !== undefined && codeView(rule.question.arguments_text, { lines: Infinity, label: "arguments" }),
      h("p", { class: "muted small-text" }, "By ", who(rule), ", ", when(rule.replied_at)),
    );
  }

  async function end(rule, pressed) {
    const sure = await confirmed({ title: "Revoke?", text: `Calls of ${rule.question.tool} like this one need a reply again.`, action: "Revoke", danger: true });
    if (!sure) return;
    try {
      await busy(pressed, del(`api/approvals/rules/${encodeURIComponent(rule.id)}`));
      toast("Revoked", { kind: "ok" });
      head.focus();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
    await load();
  }

  return { node, load };
}

/** The questions that are closed: { node, load }. */
function pastList() {
  const list = h("ul", { class: "approval-past" });
  const foot = h("div", {});
  const state = h("select", { class: "input approval-state", "aria-label": "State", onChange: () => load() }, [["replied", "Replied"], ["expired", "Expired"], ["withdrawn", "Withdrawn"]].map(([value, text]) => h("option", { value }, text)));
  const node = h("section", { class: "stack", "aria-labelledby": "approvals-past" }, h("div", { class: "spread" }, h("h2", { id: "approvals-past" }, "Past"), state), list, foot);
  let questions = [];
  let asked = 0;

  async function page(before) {
    return (await get("api/questions", { state: state.value, limit: PAGE, before })).questions;
  }

  async function load() {
    const now = (asked += 1);
    try {
      const found = await page();
      if (now === asked) show((questions = found));
    } catch (error) {
      if (now !== asked) return;
      replace(list);
      replace(foot, errorCard(error, { reading: true, retry: load }));
    }
  }

  function show(found) {
    keyed(list, questions, ({ id, state: its, remembered }) => `${id} ${its} ${Boolean(remembered)}`, row);
    const more = button("Show more", { kind: "quiet", onClick: () => busy(more, page(questions.at(-1).id)).then((next) => ((questions = [...questions, ...next]), show(next)), (error) => replace(foot, errorCard(error))) });
    replace(foot, found.length === PAGE ? more : !questions.length && h("p", { class: "muted" }, NONE[state.value]));
  }

  function row(pending) {
    const { question, reply, replied_at: at, expires_at: expires, state: its } = pending;
    const outcome = reply ? (question.digest ? OUTCOMES : ANSWERS)[reply.action] : ENDED[its];
    const body = h("div", { class: "stack tight" });
    const fold = h(
      "details",
      { class: "approval-fold", onToggle: () => fold.open && unfold(pending, body) },
      h("summary", {}, icon("right"), badge(...(outcome || [its])), h("code", { class: "approval-tool" }, question.tool), h("span", { class: "approval-preview", dir: "auto" }, preview(question.arguments_text ?? question.message)), h("span", { class: "muted small-text approval-who" }, reply && [who(pending), ", "], when(at || expires))),
      body,
    );
    return h("li", {}, fold);
  }

  /** Show all of a question, as it is now: an approval may have been used meanwhile. */
  async function unfold(pending, body) {
    const now = await get(`api/questions/${encodeURIComponent(pending.id)}`).catch(() => pending);
    replace(body, ...details(now));
  }

  return { node, load };
}

/** All of a closed question. */
function details(pending) {
  const { question, reply, remembered, used_by: used } = pending;
  const given = question.arguments_text;
  const content = reply?.content && Object.keys(reply.content).length > 0 && JSON.stringify(reply.content, null, 2);
  return [
    h("p", { class: "question-text", dir: "auto" }, question.message),
    given !== undefined && h("div", {}, h("h4", {}, "Arguments"), codeView(given, { lines: Infinity, label: "arguments" })),
    content && h("div", {}, h("h4", {}, "Reply"), codeView(content, { lines: Infinity, label: "reply" })),
    factList([
      ["Reason", reply?.why && h("span", { class: "anywhere" }, reply.why)],
      ["Remembered", remembered && (SCOPES[reply?.remember] ?? reply?.remember)],
      ["Used", question.digest && reply?.action === "accept" && (used ? "by its call" : "not yet")],
    ]),
    facts(pending),
  ].filter(Boolean);
}

/** Where and when a question was asked. */
function facts(pending) {
  const { state, asked_at: asked, expires_at: expires } = pending;
  return h("p", { class: "muted small-text row approval-facts" }, h("span", {}, "asked ", when(asked)), state === "open" && h("span", { class: "approval-expiry" }, "expires ", until(expires)), originLinks({ ...pending, place: "" }));
}

/** A time to come, relative, with the exact one as its tooltip. */
function until(time) {
  const date = new Date(time);
  const minutes = Math.max(0, (date.getTime() - Date.now()) / 60_000);
  const text = minutes < 1 ? "in less than a minute" : minutes < 120 ? `in ${counted(Math.round(minutes), "minute")}` : minutes < 2880 ? `in ${counted(Math.round(minutes / 60), "hour")}` : `in ${counted(Math.round(minutes / 1440), "day")}`;
  return h("time", { datetime: time, title: date.toLocaleString() }, text);
}

const who = ({ replied_by: by }) => by || "the person in the chat";
const preview = (text) => text.replace(/\s+/g, " ").slice(0, PREVIEW_CHARS);

/** One question, for those who have its link. */
async function linkedQuestion(root, token) {
  const path = `api/approvals/by-token/${encodeURIComponent(token)}`;
  const out = h("div", { class: "stack" }, spinner("Opening"));
  root.append(pageHead("A question for you", "Anyone with this link can reply, once."), out);

  async function load() {
    try {
      const { question, expires_at: expires } = await get(path);
      const { node } = questionCard(question, { path, onReplied: () => announce("Sent") });
      replace(out, h("article", { class: "approval" }, node, h("p", { class: "muted small-text" }, "expires ", until(expires))));
    } catch (error) {
      if (error.status === 404) replace(out, emptyState("This link leads to no open question", h("p", {}, error.message)));
      else replace(out, errorCard(error, { reading: true, retry: load }));
    }
  }

  await load();
}
