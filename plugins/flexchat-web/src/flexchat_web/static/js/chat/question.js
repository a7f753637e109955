// A question to a person: a form, yes or no, a page to visit, or the approval of a call.
//   const card = questionCard(question, { onReplied, path });  place.append(card.node)
//     question: { id, tool, message, schema, url, digest, arguments_text, remember }, as in the event and in api/questions;
//     onReplied(): called once the server has the reply; path: where it is sent, in place of api/questions/ID/reply
//   card.close({ action, why })   it has a reply, from here or elsewhere, or was withdrawn
// The arguments of an approval are shown as the server wrote them: in full, invisible characters escaped.

import { h, icon, replace, uid } from "../dom.js";
import { alert, busy, button, errorCard } from "../elements.js";
import { get, post } from "../api.js";
import { codeView } from "../json_view.js";
import { schemaForm } from "../schema_form.js";

const CLOSED = { accept: "Answered", decline: "Declined", cancel: "Not answered" };
const DECIDED = { accept: "Approved", decline: "Rejected", cancel: "Not approved" };
const SCOPES = { conversation: "these arguments, in this conversation", always: "these arguments, always" };

/** Return the element of an open question. */
export function questionCard(question, { onReplied = () => {}, path = `api/questions/${encodeURIComponent(question.id)}/reply` } = {}) {
  const isApproval = Boolean(question.digest);
  const { arguments: edited, ...properties } = question.schema?.properties || {};
  const plain = isApproval ? { ...question.schema, properties } : question.schema;
  const has = { fields: Object.keys(plain?.properties || {}).length > 0, arguments: isApproval && question.arguments_text !== undefined };
  const form = has.fields ? schemaForm({ ...plain, type: "object" }, { value: defaults(plain) }) : null;
  const trouble = h("div", { "aria-live": "polite" });
  const body = h("div", { class: "question-body" });
  const remember = scopes(question);
  let mine = null; // the reply from here that counted: { changed }
  let sending = null; // the promise of one that was sent from here
  let closed = false;

  const sheet = (submit, ...children) => {
    const node = h("form", { novalidate: true }, children);
    node.addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    return node;
  };
  const show = (node, focused) => {
    replace(trouble);
    replace(body, node, trouble);
    focused?.focus();
  };
  const back = () => button("Back", { onClick: () => show(main, main.querySelector("button")) });

  const yes = button(isApproval ? "Approve" : has.fields ? "Send" : question.url ? "Done" : "Yes", { kind: "primary", type: "submit" });
  const no = button(isApproval ? "Reject…" : has.fields || question.url ? "Decline" : "No", { onClick: () => (isApproval ? reject() : reply(no, { action: "decline" })) });
  const change = has.arguments && edited && button("Edit…", { icon: "pencil", onClick: edit });
  const main = sheet(
    () => form?.validate().length || reply(yes, { action: "accept", ...content() }),
    form?.node,
    remember?.node,
    h("div", { class: "row" }, yes, change, no),
  );

  function content() {
    return form ? { content: form.value ?? {} } : {};
  }

  function reject() {
    const id = uid("reason");
    const reason = h("input", { id, type: "text", dir: "auto", class: "input", maxlength: 2000, autocomplete: "off" });
    const send = button("Reject", { kind: "danger", type: "submit" });
    const fields = h("div", { class: "field" }, h("label", { for: id }, "Reason, for the model (optional)"), reason);
    show(sheet(() => reply(send, { action: "decline", reason: reason.value.trim() }), fields, h("div", { class: "row" }, send, back())), reason);
  }

  function edit() {
    const id = uid("edit");
    const text = h("textarea", { id, class: "input mono", rows: 4, spellcheck: "false", autocomplete: "off", "aria-describedby": `${id}-problem`, value: question.arguments_text });
    const problem = h("p", { class: "field-problem", id: `${id}-problem`, role: "alert" });
    const send = button("Use these", { kind: "primary", type: "submit" });
    const submit = () => {
      problem.textContent = flawOf(text.value);
      text.setAttribute("aria-invalid", String(Boolean(problem.textContent)));
      if (problem.textContent) text.focus();
      else reply(send, { action: "accept", ...content() }, text.value); // they are shown again, to be approved
    };
    const fields = h("div", { class: "field" }, h("label", { for: id }, "Arguments, as JSON"), text, problem);
    show(sheet(submit, fields, h("div", { class: "row" }, send, back())), text);
  }

  async function reply(pressed, sent, changed) {
    replace(trouble);
    const scope = sent.action === "accept" && changed === undefined && remember?.value;
    try {
      sending = busy(pressed, post(path, written({ ...sent, ...(scope && { remember: scope }) }, changed)));
      await sending;
      [sending, mine] = [null, { changed: changed !== undefined }];
      close({ action: sent.action, why: sent.reason });
      onReplied();
    } catch (error) {
      sending = null;
      if (closed) return;
      closed = error.status === 404;
      if (closed) replace(body, alert("warn", h("p", {}, error.message)));
      else replace(trouble, errorCard(error));
    }
  }

  async function close({ action, why }) {
    const note = h("p", { class: "muted small-text" });
    const tell = (who, changed) => {
      const word = changed ? "Changed" : (isApproval ? DECIDED : CLOSED)[action];
      note.textContent = `${word}${who && ` by ${who}`}${why ? `: ${why}` : ""}`;
    };
    await sending?.catch(() => {}); // the event about a reply may come before the answer to it
    if (closed) return;
    closed = true;
    tell(mine ? "you" : "", mine?.changed);
    replace(body, note);
    if (mine || action === "cancel") return;
    const { replied_by: who = "", reply: sent } = await get(`api/questions/${encodeURIComponent(question.id)}`).catch(() => ({}));
    tell(who, Boolean(sent?.content?.arguments));
  }

  show(main);
  const head = [icon(isApproval ? "lock" : "question"), h("span", { class: "tool-call-name" }, question.tool), h("span", { class: "muted" }, isApproval ? "needs approval" : "asks")];
  const node = h(
    "section",
    { class: "question", "aria-label": `${isApproval ? "Approval" : "Question"} of ${question.tool}` },
    h("div", { class: "question-head" }, head),
    h("p", { class: ["question-text", has.arguments && "in-brief"], dir: "auto" }, question.message),
    question.url && link(question.url),
    has.arguments && h("div", {}, h("h4", {}, "Arguments"), codeView(question.arguments_text, { lines: Infinity, label: "arguments" })),
    body,
  );
  return { node, close };
}

/** Return the choice of what an approval also counts for; null if it counts once. */
function scopes({ remember }) {
  const names = Object.keys(remember || {}).filter(Boolean);
  if (remember && "" in remember) return { node: h("p", { class: "muted small-text" }, "Approving it also lets later calls of this tool run in this conversation."), value: "" };
  if (!names.length) return null;
  const id = uid("remember");
  const options = names.map((name) => h("option", { value: name }, SCOPES[name] || name));
  const select = h("select", { id, class: "input", value: "" }, h("option", { value: "" }, "this call only"), options);
  return {
    node: h("div", { class: "field" }, h("label", { for: id }, "Approve for"), select),
    get value() {
      return select.value;
    },
  };
}

/** Return a reply as JSON. Edited arguments are sent as they were typed: numbers may have more digits than JavaScript's. */
function written(reply, edited) {
  if (edited === undefined) return reply;
  const { content = {}, ...rest } = reply;
  const others = JSON.stringify(content).slice(1, -1);
  return `${JSON.stringify(rest).slice(0, -1)},"content":{${others && `${others},`}"arguments":${edited}}}`;
}

function flawOf(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? "" : "The arguments must be an object: { … }.";
  } catch (error) {
    return `This is not JSON: ${error.message}`;
  }
}

function defaults(schema) {
  const found = Object.entries(schema.properties).filter(([, one]) => one && typeof one === "object" && "default" in one);
  return Object.fromEntries(found.map(([name, one]) => [name, one.default]));
}

function link(url) {
  if (!/^https?:\/\//i.test(url)) return h("p", {}, h("code", {}, url));
  return h("p", {}, h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, url));
}
