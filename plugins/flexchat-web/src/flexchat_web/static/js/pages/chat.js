// Chat: conversations at the left, one of them with its messages, and the field to write in.

import { h, icon, replace, displayText } from "../dom.js";
import { alert, button, emptyState, errorCard, iconButton, money, spinner } from "../elements.js";
import { address, get, uiConfig } from "../api.js";
import { onReturn } from "../attention.js";
import { askText, confirmed, openDialog, toast } from "../dialog.js";
import { go, rename, setPlace } from "../router.js";
import { following } from "../chat/following.js";
import { sessions } from "../chat/sessions.js";
import { notKept, sessionList } from "../chat/session_list.js";
import { collectionChoice } from "../chat/collections.js";
import { costDialog } from "../chat/cost.js";
import { attachmentList, isSending, sentFiles } from "../chat/attachments.js";

export const title = "Chat";

export async function mount(root, { rest }) {
  const server = await uiConfig();
  const choice = collectionChoice(server.collections);
  const keeps = server.keeps_conversations;
  const list = sessionList({ keeps, onPick: () => drawer?.close() });
  let session = null;
  let drawer = null;

  const heading = h("h1", { class: "conversation-title", dir: "auto" });
  const price = h("div", { class: "conversation-price" });
  const tools = h("div", { class: "conversation-tools" });
  const messages = h("div", { class: "messages" });
  const log = h("div", { class: "log", tabindex: "0", role: "region", "aria-label": "Messages" }, messages);
  const latest = button("Latest", { icon: "down", kind: "small latest", hidden: true, onClick: () => follow.toEnd() });
  const input = h("textarea", { class: "input", id: "message", dir: "auto", rows: "1", placeholder: "Write a message", maxlength: "100000" });
  const send = h("button", { type: "submit", class: "icon-button send", "aria-label": "Send", title: "Send" }, icon("send"));
  const stop = iconButton("stop", "Stop", () => session.stop(), { class: "send stop" });
  const files = attachmentList({ onChange: showSend });
  const picker = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files", onChange: pickFiles });
  const attach = iconButton("attach", "Attach files", () => picker.click(), { hidden: !server.keeps_media });
  const composer = h(
    "form",
    { class: "composer" },
    choice.node,
    files.node,
    h("div", { class: "composer-box" }, picker, attach, h("label", { for: "message", class: "visually-hidden" }, "Message"), input, send, stop),
    h("p", { class: "composer-hint" }, "Enter sends, Shift+Enter begins a new line."),
  );
  const side = h("aside", { class: "chat-side", "aria-label": "Conversations" }, list.node);
  const conversation = h(
    "section",
    { class: "conversation", "aria-label": "Conversation" },
    h("header", { class: "conversation-head" }, iconButton("list", "Conversations", openDrawer, { class: "only-narrow" }), h("div", { class: "conversation-name" }, heading, price), tools),
    log,
    h("div", { class: "latest-place" }, latest),
    composer,
  );
  root.append(side, conversation);

  const follow = following(log, messages, (away) => (latest.hidden = !away));

  function openDrawer() {
    drawer = openDialog({ title: "Conversations", content: list.node, className: "drawer", onClose: () => side.append(list.node) });
  }

  async function pick(id) {
    session?.watch(false);
    session = id ? sessions.find(id) : sessions.fresh();
    session.watch(!document.hidden);
    input.value = session.draft;
    files.show(session);
    show();
    follow.toEnd();
    if (matchMedia("(min-width: 761px)").matches) input.focus();
    await (session.loaded ? session.refresh() : session.open());
  }

  async function look() {
    await sessions.load();
    await session?.refresh();
  }

  function show() {
    list.show(session);
    heading.textContent = displayText(session.title) || (session.missing ? "Conversation" : "New conversation");
    setPlace(session.title || title);
    replace(price, session.kept && session.loaded && session.cost && !session.missing && priceButton(session));
    replace(tools, session.nodes.length > 0 && !session.missing && actions());
    composer.hidden = session.missing;
    send.hidden = !session.isFree;
    stop.hidden = !session.running;
    showSend();
    composer.classList.toggle("busy", !session.isFree);
    if (session.problem) replace(messages, errorCard(session.problem, { retry: () => session.open(), reading: true }));
    else if (session.missing) sync(messages, [...session.nodes, session.nodes.length ? deleted : absent]);
    else if (!session.loaded) replace(messages, spinner("Opening"));
    else if (!session.nodes.length) replace(messages, welcome);
    else sync(messages, session.nodes);
    follow.refresh();
  }

  function showSend() {
    send.disabled = isSending(session) || !(input.value.trim() || sentFiles(session).length);
  }

  function pickFiles() {
    files.add(picker.files);
    picker.value = "";
    input.focus();
  }

  function actions() {
    const file = (format) => address(`api/conversations/${encodeURIComponent(session.id)}/export`, { format });
    return [
      iconButton("pencil", "Rename", () => {
        const renamed = session;
        askText({ title: "Rename the conversation", label: "Title", value: session.title, action: "Rename", maxLength: 200, save: (name) => renamed.rename(name) });
      }),
      session.kept && h("a", { class: "icon-button", href: file("markdown"), download: "", "aria-label": "Export as Markdown", title: "Export as Markdown" }, icon("download")),
      iconButton("trash", "Delete", async () => {
        const yes = await confirmed({
          title: "Delete this conversation?",
          text: `“${session.title}” and all its messages will be gone. This cannot be undone.`,
          action: "Delete",
          danger: true,
        });
        if (!yes) return;
        try {
          await session.remove();
          toast("The conversation is deleted.", { kind: "ok" });
          go("chat");
        } catch (error) {
          toast(error.message, { kind: "bad" });
        }
      }),
    ];
  }

  function ask(text) {
    const sent = sentFiles(session);
    if (!(text.trim() || sent.length) || isSending(session) || !session.isFree) return;
    const begun = session.nodes.length === 0;
    input.value = "";
    session.files = session.files.filter((file) => file.state === "failed");
    files.show();
    session.send(text, choice.value, sent);
    follow.toEnd();
    if (begun) rename("chat", session.id);
  }

  function another() {
    const begin = () => {
      const next = sessions.fresh();
      next.draft ||= session.draft;
      go("chat");
    };
    return button("New conversation", { icon: "plus", onClick: begin });
  }

  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(input.value);
  });
  input.addEventListener("input", () => {
    session.draft = input.value;
    showSend();
  });
  input.addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    files.add(event.clipboardData.files);
  });
  for (const name of ["dragover", "dragleave", "drop"]) conversation.addEventListener(name, dragged);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask(input.value);
    }
  });

  function dragged(event) {
    if (!event.dataTransfer.types.includes("Files") || session.missing) return;
    event.preventDefault();
    const isOutside = event.type === "dragleave" && !conversation.contains(event.relatedTarget);
    conversation.classList.toggle("dropping", event.type === "dragover" || (event.type === "dragleave" && !isOutside));
    if (event.type === "drop") files.add(event.dataTransfer.files);
  }

  const offered = h("div", { class: "welcome-examples" });
  const welcome = h("div", { class: "welcome" }, h("h2", {}, "What can I do for you?"), offered, !keeps && notKept());
  examples(server, (text) => ask(text)).then((nodes) => replace(offered, nodes), () => {});
  const absent = emptyState("This conversation is not kept", keeps ? h("p", {}, "It was deleted, or was never answered.") : notKept(), another());
  const deleted = alert("warn", h("p", {}, h("strong", {}, "This conversation was deleted elsewhere."), " What is shown here is kept nowhere any more."), h("p", {}, another()));

  const forget = sessions.on(show);
  const stopWatching = onReturn(() => look().catch(() => {}));
  const seen = () => session?.watch(!document.hidden); // a hidden page holds no connection for a suspended turn
  document.addEventListener("visibilitychange", seen);
  await Promise.all([pick(rest[0]), sessions.load()]);
  return {
    update({ rest: next }) {
      pick(next[0]);
      return true;
    },
    unmount() {
      forget();
      stopWatching();
      document.removeEventListener("visibilitychange", seen);
      session?.watch(false);
      follow.close();
      drawer?.close();
    },
  };
}

function priceButton(session) {
  const text = money(session.cost);
  return button(text, { kind: "quiet small", class: "money", "aria-label": `Cost: ${text}`, onClick: () => costDialog(session) });
}

/** Add nodes to a container without touching existing ones: a reader may have selected text in them. */
function sync(place, nodes) {
  const wanted = new Set(nodes);
  for (const node of [...place.children]) if (!wanted.has(node)) node.remove();
  nodes.forEach((node, index) => {
    if (place.children[index] !== node) place.insertBefore(node, place.children[index] || null);
  });
}

const EXAMPLES = [
  ["calculator", "What is 17% of 230?"],
  ["get_current_datetime", "What time is it in Tokyo?"],
  ["text_replace", "Replace 'cat' by 'dog' in the text 'the cat sat'"],
  ["get_weather", "What is the weather in Paris?"],
];

async function examples(server, onPick) {
  if (server.has_tools === false) return [];
  const { tools } = await get("api/tools/list");
  const names = new Set(tools.map((tool) => tool.name));
  return EXAMPLES.filter(([tool]) => names.has(tool)).map(([, text]) => button(text, { onClick: () => onPick(text) }));
}
