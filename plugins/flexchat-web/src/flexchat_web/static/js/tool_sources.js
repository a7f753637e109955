// Tool sources: each with its server, and the tools that wait to be accepted.
//   sourcesView(data, { mayEdit, notes, act })     data: GET api/tools/sources; notes: error messages, by source
//   act(source, name, pressed, body)               a button was pressed: "look", "restart" or "accept"

import { h, icon } from "./dom.js";
import { alert, badge, button, counted, when } from "./elements.js";
import { confirmed } from "./dialog.js";
import { effectOfTool, parametersView } from "./tool_definition.js";

const STATUS = {
  "not opened": ["not opened yet", "", "It is opened when a rule needs its tools."],
  open: ["open", "ok", "Its tools were read."],
  failed: ["failed", "bad", "It could not be opened or read; the accepted tools are offered."],
};
const SERVER = {
  stopped: ["not running", "", null, "It is started when its tools are needed."],
  running: ["running", "ok", "ok", ""],
  broken: ["broken", "bad", "failed", "It could not be started, or has ended. The next call starts it again."],
};
// The state of a changed tool until it is accepted: not offered, or offered.
const KINDS = {
  new: ["New: not offered until it is accepted."],
  changed: ["Changed: it can no longer be called, so it is left out.", "Changed: offered as it was accepted."],
  gone: ["Gone: no longer offered.", "Gone: still offered, because it can still be called."],
};
const MAX_SHOWN = 50;

/** A card for each source; null if there are none. */
export function sourcesView({ sources, trouble, lock }, given) {
  if (!sources.length) return null;
  return h(
    "section",
    { class: "stack tight", "aria-label": "Sources" },
    trouble && alert("bad", h("p", {}, trouble)),
    sources.map((source) => sourceCard(source, lock, given)),
  );
}

function sourceCard(source, lock, { mayEdit, notes, act }) {
  const waiting = source.changes.length;
  const note = notes.get(source.name);
  const press = (name, pressed, body) => act(source, name, pressed, body);
  return h(
    "article",
    { class: "card source-card", "aria-labelledby": `source-${source.name}` },
    h(
      "header",
      { class: "tool-head" },
      h("h2", { id: `source-${source.name}`, class: "mono", tabindex: "-1" }, source.name),
      h("div", { class: "row tight" }, badge(source.type, "accent"), states(source), waiting > 0 && badge(`${waiting} waiting`, "warn")),
    ),
    h("p", { class: "muted small-text" }, offers(source, lock)),
    source.server && serverView(source),
    source.trouble && !note?.includes(source.trouble) && alert("bad", h("p", {}, source.trouble)),
    note && alert("bad", h("p", {}, note)),
    waiting > 0 && changesView(source, mayEdit, press),
    source.left_out.length > 0 &&
      h(
        "details",
        { class: "lint" },
        h("summary", {}, icon("right"), badge(`${source.left_out.length} left out`, "warn")),
        h("ul", { class: "lint-list" }, source.left_out.map((one) => h("li", {}, h("code", {}, one.tool), ` ${one.reason}`))),
      ),
    mayEdit && h("div", { class: "row source-actions" }, buttons(source, press)),
  );
}

/** Badges of a source's state; the state of a server is more precise than "open". */
function states({ status, server }) {
  const [word, kind, meaning] = STATUS[status] || [status, "", ""];
  const [runs, colour, picture, means] = SERVER[server?.status] || [];
  const says = !server || (status === "failed" && server.status !== "broken");
  return [says && badge(word, kind, null, { title: meaning }), server && badge(runs, colour, picture, { title: means })];
}

function serverView(source) {
  const { server, trouble } = source;
  const facts = [
    server.since && ["Started ", when(server.since)],
    server.version && `protocol ${server.version}`,
    server.ends > 0 && `failed ${server.ends === 1 ? "once" : counted(server.ends, "time")}`,
  ].filter(Boolean);
  const lines = server.last_lines;
  return [
    facts.length > 0 && h("p", { class: "muted small-text" }, facts.map((fact, at) => [at > 0 && " · ", fact])),
    server.trouble && !trouble.includes(server.trouble) && (server.status === "broken" ? alert("bad", h("p", {}, server.trouble)) : h("p", { class: "small-text" }, h("span", { class: "muted" }, "Last error: "), server.trouble)),
    lines.length > 0 &&
      h(
        "details",
        { class: "lint" },
        h("summary", {}, icon("right"), `What it wrote last: ${counted(lines.length, "line")}`),
        h("pre", { class: "code source-lines", tabindex: "0", role: "group", "aria-label": `What ${source.name} wrote last` }, lines.join("\n")),
      ),
  ];
}

function buttons(source, press) {
  return [acceptAll(source, press), serverButtons(source, press)];
}

function acceptAll(source, press) {
  const shown = source.changes.slice(0, MAX_SHOWN);
  if (shown.length < 2) return null;
  const word = shown.length < source.changes.length ? `Accept these ${shown.length}` : "Accept all";
  return button(word, { icon: "check", kind: "small", data: { press: "accept" }, "aria-label": `${word} of ${source.name} as shown`, onClick: (event) => accept(shown, event.currentTarget, press) });
}

function serverButtons(source, press) {
  const look = (word) => button(word, { icon: "search", kind: "small", data: { press: "look" }, "aria-label": `${word} of ${source.name}`, onClick: (event) => press("look", event.currentTarget) });
  if (!source.server) return look(source.status === "not opened" ? "Read its tools" : "Read its tools again");
  const starts = source.server.status !== "running";
  const word = starts ? "Start" : "Restart";
  return [
    button(word, { icon: starts ? "play" : "retry", kind: "small", data: { press: "restart" }, "aria-label": `${word} ${source.name}`, onClick: (event) => restart(source, event.currentTarget, press) }),
    !starts && look("Read its tools again"),
  ];
}

async function restart(source, pressed, press) {
  const text = "Calls under way fail. One that changes something is then unknown, and waits for you under Activity.";
  if (source.server.status === "running" && !(await confirmed({ title: `Restart ${source.name}?`, text, action: "Restart" }))) return;
  press("restart", pressed);
}

function offers(source, lock) {
  if (source.accepted) {
    const count = source.tools.length;
    return `Offers ${counted(count, "tool")}${source.prefix ? `, named ${source.prefix}…` : ""}, as accepted in ${lock}.`;
  }
  if (source.status === "open") return "None of its tools was accepted yet. The first turn that needs them accepts all.";
  if (source.trouble) return "None of its tools is known yet.";
  return "Nobody knows its tools yet: the first turn that needs them opens it.";
}

function changesView(source, mayEdit, press) {
  const shown = source.changes.slice(0, MAX_SHOWN);
  const more = source.changes.length - shown.length;
  return h(
    "div",
    { class: "stack tight" },
    h("ul", { class: "source-changes" }, shown.map((change) => changeView(source, change, mayEdit, press))),
    more > 0 && h("p", { class: "muted small-text" }, `And ${more} more: `, mayEdit ? "they follow when these are accepted. " : "", h("code", {}, `flexchat tools diff ${source.name}`), " shows all."),
    !mayEdit && h("p", { class: "small-text" }, "To use them as they are now: ", h("code", {}, `flexchat tools accept ${source.name}`)),
  );
}

function changeView(source, change, mayEdit, press) {
  const told = KINDS[change.kind][change.offered ? 1 : 0];
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row tight" },
      h("code", {}, change.tool),
      badge(change.kind, change.kind === "gone" ? "bad" : "warn"),
      change.kind === "new" && effectOfTool(change.effect),
      h("span", { class: "muted" }, told),
    ),
    change.warnings.length > 0 && alert("warn", h("p", {}, h("strong", {}, "Look closely")), h("ul", {}, change.warnings.map((text) => h("li", { dir: "auto" }, text)))),
    change.kind === "new" && [h("p", { dir: "auto" }, change.description), parametersView(change.parameters)],
    change.differences.length > 0 &&
      h(
        "dl",
        { class: "source-differences" },
        change.differences.map((one) =>
          h("div", {}, h("dt", {}, h("code", {}, one.place)), "before" in one && h("dd", { class: "was" }, value("was", one.before)), "now" in one && h("dd", { class: "is" }, value("is now", one.now))),
        ),
      ),
    mayEdit && h("div", { class: "row" }, button("Accept", { icon: "check", kind: "small", data: { press: `accept ${change.tool}` }, "aria-label": `Accept ${change.tool}, ${change.kind}`, onClick: (event) => accept([change], event.currentTarget, press) })),
  );
}

/** Accept the definitions shown, by their digests: the server refuses one that has changed since. */
async function accept(changes, pressed, press) {
  const suspicious = changes.filter((change) => change.warnings.length);
  if (suspicious.length) {
    const named = suspicious.map((change, at) => [at > 0 && ", ", h("code", {}, change.tool)]);
    const text = h("p", {}, "There is something to look closely at: ", named, ". A model reads a description as an instruction.");
    if (!(await confirmed({ title: "Accept it all the same?", text, action: "Accept", danger: true }))) return;
  }
  press("accept", pressed, { tools: Object.fromEntries(changes.map((change) => [change.tool, change.digest])) });
}

function value(word, given) {
  return [h("span", { class: "muted" }, word), " ", typeof given === "string" ? given : h("code", {}, JSON.stringify(given))];
}
