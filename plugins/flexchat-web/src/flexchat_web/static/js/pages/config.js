// Config: the configuration as a form and as text, synchronised, checked at each change, applied after a diff.

import { h, replace, announce, uid } from "../dom.js";
import { post, uiConfig } from "../api.js";
import { onReturn } from "../attention.js";
import { pageHead, button, badge, alert, spinner, copyButton, busy } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { openDraft } from "../config/draft.js";
import { textEditor } from "../config/text_editor.js";
import { entriesSection } from "../config/entries.js";
import { rulesSection } from "../config/rules.js";
import { toolsSection } from "../config/tools.js";
import { topicSection, intentSection, restSection } from "../config/tables.js";
import { undoKeys } from "../config/history.js";
import { reviewAndApply } from "../config/applying.js";

export const title = "Config";

const LOOK_MS = 4000;

const SECTIONS = [
  ["llms", "LLMs", (draft) => entriesSection(draft, "llms"), (data) => count(data.llms)],
  ["responses", "Rules", rulesSection, (data) => count(data.responses)],
  ["tools", "Tools", toolsSection, (data) => count(data.tools?.registry)],
  ["topic", "Topic", topicSection, () => null],
  ["intent", "Intent", intentSection, (data) => count(data.intent?.detection)],
  ["stores", "Document stores", (draft) => entriesSection(draft, "stores"), (data) => count(data.stores)],
  ["", "More", restSection, () => null],
];

const STATES = {
  clean: ["Clean", "", "check"],
  changed: ["Changed", "accent", "pencil"],
  checking: ["Validating", "accent", "running"],
  valid: ["Valid", "ok", "ok"],
  invalid: ["Invalid", "bad", "failed"],
};

/** Show the page. */
export async function mount(root) {
  const waiting = spinner("Loading the configuration");
  root.append(h("h1", { class: "visually-hidden" }, title), waiting);
  const [draft, server] = await Promise.all([openDraft(), uiConfig().catch(() => ({}))]);
  const sections = new Map();
  let current = "llms";
  let announced = ""; // the last state announced to screen readers

  const editor = textEditor({ readOnly: !draft.editable, onInput: (text) => draft.type(text) });
  const state = h("span", { class: "config-state" });
  const apply = button("Apply…", { icon: "check", kind: "primary", onClick: () => reviewAndApply(draft, apply) });
  const discard = button("Discard", { icon: "retry", onClick: () => discardAll() });
  const tabs = h("div", { class: "config-tabs", role: "tablist", "aria-label": "Sections" });
  const panel = h("div", { class: "config-panel", role: "tabpanel", id: uid("panel"), tabindex: "-1" });
  const unread = alert("warn", h("p", {}, h("strong", {}, "The form waits."), " The text cannot be read; mend it first, the line is marked."));
  const outside = h("div", { class: "config-outside", data: { state: "" } });
  const problems = h("section", { class: "config-problems", "aria-label": "Problems" });
  const views = h("fieldset", { class: "segmented config-views" }, h("legend", { class: "visually-hidden" }, "Show"), view("form", "Form", true), view("text", "Text", false));
  const panes = h("div", { class: "config-panes", data: { view: "form" } }, h("section", { class: "config-form", "aria-label": "Form" }, tabs, unread, panel), h("section", { class: "config-text", "aria-label": "Text" }, editor.node, problems));

  root.replaceChildren(
    pageHead("Config", h("span", {}, h("code", {}, draft.name), " ", state), copyButton(() => draft.text, "Copy the text"), exportMenu(), discard, apply),
    ...[reasons(draft, server), others(draft)].filter(Boolean),
    outside,
    views,
    panes,
  );
  const stop = draft.subscribe((what) => refresh(what));
  const stopKeys = undoKeys(root, {
    undo: async () => announce((await draft.undo()) ? "Undone." : "Nothing to undo."),
    redo: async () => announce((await draft.redo()) ? "Redone." : "Nothing to redo."),
  });
  const look = () => draft.look().catch(() => {}); // connection errors are reported by actions
  const stopWatching = onReturn(look);
  const looking = setInterval(() => document.hidden || look(), LOOK_MS);
  editor.text = draft.text;
  open(current);
  for (const what of ["data", "problems", "status"]) refresh(what);

  function refresh(what) {
    if (what === "text") editor.text = draft.text;
    if (what === "status") showState();
    if (what === "problems" || what === "data") {
      if (what === "problems") showProblems();
      unread.hidden = draft.readable;
      panel.hidden = !draft.data;
      panel.inert = !draft.readable;
      showTabs();
      if (draft.data) sections.get(current)?.update(what);
    }
  }

  function showState() {
    replace(state, badge(...STATES[draft.status]));
    if (["clean", "valid", "invalid"].includes(draft.status) && draft.status !== announced) {
      if (announced) announce(`${STATES[draft.status][0]}. ${draft.errors.length ? number(draft.errors.length, "problem") : ""}`);
      announced = draft.status;
    }
    showOutside();
    apply.disabled = !draft.editable || !draft.changed || Boolean(draft.theirs) || draft.status !== "valid";
    apply.title = !draft.editable ? "Nothing can be changed here." : draft.theirs ? "The file was changed meanwhile: choose a text first." : !draft.changed ? "Nothing was changed." : draft.status === "invalid" ? "Mend the problems first." : "";
    discard.disabled = !draft.changed;
  }

  /** Show the changes that others made to the file, if they matter here. */
  function showOutside() {
    const state = draft.theirs ? "theirs" : draft.inForce ? "" : draft.status === "invalid" && !draft.changed ? "broken" : draft.status === "checking" ? outside.dataset.state : "waiting";
    if (outside.dataset.state === state) return;
    outside.dataset.state = state;
    replace(outside, state && alert("warn", ...said(state)));
    if (state) announce(outside.textContent);
  }

  function said(state) {
    const all = {
      theirs: () => [
        h("p", {}, h("strong", {}, `${draft.name} was changed meanwhile by somebody else.`), " Nothing of it is lost, nor of your text."),
        h("div", { class: "row" }, button("Take the file's text", { kind: "small", onClick: (event) => act(event, draft.takeTheirs()) }), button("Keep my text", { kind: "small", onClick: (event) => act(event, draft.keepMine()) }), copyButton(() => draft.text, "Copy my text")),
        h("p", { class: "small-text" }, "If you keep yours, applying it replaces the other; the difference is shown first."),
      ],
      broken: () => [h("p", {}, h("strong", {}, "This text cannot be used."), " What was read before still serves.")],
      waiting: () => [
        h("p", {}, h("strong", {}, `${draft.name} was changed and does not serve yet.`), " What was read before still does."),
        draft.editable && h("div", {}, button("Put the file in force", { kind: "small", icon: "retry", onClick: (event) => act(event, post("api/config/reload", {}).then(() => draft.look())) })),
      ],
    };
    return all[state]();
  }

  async function act({ currentTarget }, work) {
    try {
      await busy(currentTarget, work);
    } catch (error) {
      toast(error.message, { kind: "bad", seconds: 8 });
    }
  }

  function showTabs() {
    const keys = SECTIONS.map(([key]) => key).filter(Boolean);
    const sectionOf = (place) => (keys.includes(place[0]) ? place[0] : "");
    const wrong = new Map();
    for (const one of draft.errors) wrong.set(sectionOf(one.place), (wrong.get(sectionOf(one.place)) || 0) + 1);
    const focused = tabs.contains(document.activeElement);
    replace(
      tabs,
      SECTIONS.map(([key, label, , counted]) => {
        const entries = draft.data ? counted(draft.data) : null;
        return h(
          "button",
          { type: "button", role: "tab", class: "config-tab", "aria-selected": String(key === current), "aria-controls": panel.id, tabindex: key === current ? "0" : "-1", data: { section: key }, onClick: () => open(key), onKeydown: (event) => step(event, key) },
          label,
          entries > 0 && h("span", { class: "config-count" }, String(entries)),
          wrong.has(key) && h("span", { class: "config-wrong" }, h("span", { "aria-hidden": "true" }, String(wrong.get(key))), h("span", { class: "visually-hidden" }, ` ${number(wrong.get(key), "problem")}`)),
        );
      }),
    );
    if (focused) tabs.querySelector("[aria-selected=true]").focus({ preventScroll: true });
  }

  function step(event, key) {
    const keys = SECTIONS.map(([one]) => one);
    const to = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!to) return;
    event.preventDefault();
    open(keys[(keys.indexOf(key) + to + keys.length) % keys.length]);
    tabs.querySelector("[aria-selected=true]").focus();
  }

  function open(key) {
    current = key;
    if (draft.data) {
      if (!sections.has(key)) sections.set(key, SECTIONS.find(([one]) => one === key)[2](draft));
      else sections.get(key).update("data");
      sections.get(key).update("problems");
      replace(panel, sections.get(key).node);
    }
    showTabs();
    panel.setAttribute("aria-label", SECTIONS.find(([one]) => one === key)[1]);
    const tab = tabs.querySelector("[aria-selected=true]");
    tab?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }

  function showProblems() {
    const all = [...draft.errors.map((one) => ({ ...one, kind: "bad" })), ...draft.warnings.map((one) => ({ ...one, kind: "warn" }))];
    editor.mark(all);
    replace(
      problems,
      all.length > 0 && h("h2", {}, [draft.errors.length && number(draft.errors.length, "problem"), draft.warnings.length && number(draft.warnings.length, "note")].filter(Boolean).join(", ")),
      all.length > 0 && h("ul", {}, all.map((one) => h("li", {}, h("button", { type: "button", class: ["config-problem", one.kind], onClick: () => jump(one) }, h("span", { class: "config-line" }, one.line ? `Line ${one.line}` : "All"), h("span", {}, one.path && h("code", {}, one.path), one.path && " ", one.text))))),
    );
  }

  function jump(problem) {
    if (problem.line) {
      choose("text");
      editor.show(problem.line);
    }
    const key = SECTIONS.some(([one]) => one === problem.place[0]) ? problem.place[0] : "";
    if (!draft.readable || !problem.place.length) return;
    if (key !== current) open(key);
    sections.get(key)?.reveal?.(problem.place);
  }

  function view(name, label, checked) {
    return h("label", {}, h("input", { type: "radio", name: "config-view", value: name, checked, class: "visually-hidden", onChange: () => choose(name) }), h("span", {}, label));
  }

  function choose(name) {
    panes.dataset.view = name;
    views.querySelector(`[value=${name}]`).checked = true;
  }

  async function discardAll() {
    const sure = await confirmed({ title: "Discard your changes?", text: "The text of the file comes back.", action: "Discard", danger: true });
    if (!sure) return;
    try {
      await busy(discard, draft.reload());
      showState();
      announce("Changes discarded.");
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
  }

  return {
    canLeave: () => !draft.changed || confirmed({ title: "Leave without applying?", text: "Your changes of the configuration will be lost.", action: "Leave", danger: true }),
    unsaved: () => draft.changed,
    unmount() {
      stop();
      stopKeys();
      stopWatching();
      clearInterval(looking);
      draft.close();
    },
  };
}

function reasons(draft, server) {
  if (draft.editable) return null;
  const why =
    server.config?.format === null
      ? [h("strong", {}, "This is the demo's configuration, in no file."), " It can be looked at, not changed. ", h("code", {}, "flexchat init"), " writes one of your own; start the server again in its folder."]
      : [h("strong", {}, "Read-only."), " This server does not let the configuration be changed: it was started with ", h("code", {}, "--read-only"), ", or not on this machine alone and without ", h("code", {}, "--edit"), "."];
  return alert("warn", h("p", {}, why));
}

/** Name the file that is edited here, and those that are read with it. */
function others(draft) {
  if (!draft.others.length) return null;
  const names = draft.others.flatMap((name, at) => [at ? ", " : "", h("code", {}, name)]);
  return h("p", { class: "small-text" }, "Only ", h("code", {}, draft.name), " is shown and changed here. It is read together with ", names, ": change those by hand.");
}

function exportMenu() {
  const item = (format, label) => h("a", { class: "menu-item", href: `api/config/export?format=${format}`, download: `flexchat.${format}` }, label);
  const node = h("details", { class: "menu" }, h("summary", { class: "button" }, "Export"), h("div", { class: "menu-items" }, item("toml", "As TOML"), item("yaml", "As YAML"), item("json", "As JSON")));
  node.addEventListener("click", (event) => event.target.closest(".menu-item") && (node.open = false));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && node.open) {
      node.open = false;
      node.firstElementChild.focus();
    }
  });
  node.addEventListener("focusout", (event) => !node.contains(event.relatedTarget) && (node.open = false));
  return node;
}

function count(part) {
  return part ? Object.keys(part).length : 0;
}

function number(amount, noun) {
  return `${amount} ${noun}${amount === 1 ? "" : "s"}`;
}
