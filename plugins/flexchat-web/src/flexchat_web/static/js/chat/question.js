// A question that a tool asks during an answer: a form, yes or no, or a page to visit.
//   const card = questionCard({ id, tool, message, schema, url });  body.append(card.node)
//   card.close({ action, why }): it has been answered, here or elsewhere, or was withdrawn

import { h, icon, replace } from "../dom.js";
import { busy, button, errorCard } from "../elements.js";
import { post } from "../api.js";
import { schemaForm } from "../schema_form.js";

const CLOSED = { accept: "Answered", decline: "Declined", cancel: "Not answered" };

/** Return the element of an open question. */
export function questionCard({ id, tool, message, schema, url }) {
  const fields = Object.keys(schema?.properties || {}).length > 0;
  const form = fields ? schemaForm({ ...schema, type: "object" }, { value: defaults(schema) }) : null;
  const trouble = h("div", { "aria-live": "polite" });
  const send = button(fields ? "Send" : url ? "Done" : "Yes", { kind: "primary", type: "submit" });
  const decline = button(fields || url ? "Decline" : "No", { onClick: () => reply("decline", decline) });
  const sheet = h("form", { novalidate: true }, form?.node, trouble, h("div", { class: "row" }, send, decline));
  sheet.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!form?.validate().length) reply("accept", send);
  });
  const head = h("div", { class: "question-head" }, icon("question"), h("span", { class: "tool-call-name" }, tool), h("span", { class: "muted" }, "asks"));
  const node = h("section", { class: "question", "aria-label": `Question of ${tool}` }, head, h("p", { class: "question-text", dir: "auto" }, message), url && link(url), sheet);

  async function reply(action, pressed) {
    const content = action === "accept" && fields ? (form.value ?? {}) : null;
    replace(trouble);
    try {
      await busy(pressed, post(`api/questions/${encodeURIComponent(id)}/reply`, { action, content }));
    } catch (error) {
      replace(trouble, errorCard(error));
    }
  }

  return {
    node,
    close({ action, why }) {
      sheet.replaceWith(h("p", { class: "muted small-text" }, why ? `${CLOSED[action]}: ${why}` : CLOSED[action]));
    },
  };
}

function defaults(schema) {
  const found = Object.entries(schema.properties).filter(([, one]) => one && typeof one === "object" && "default" in one);
  return Object.fromEntries(found.map(([name, one]) => [name, one.default]));
}

function link(url) {
  if (!/^https?:\/\//i.test(url)) return h("p", {}, h("code", {}, url));
  return h("p", {}, h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, url));
}
