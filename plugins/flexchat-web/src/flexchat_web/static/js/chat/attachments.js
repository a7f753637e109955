// The files of the message that is being written: each is sent to the server as soon as it is added.
//   const files = attachmentList({ onChange })     place files.node above the field
//   files.show(session)   show the files of a session: session.files, which outlive the page Chat
//   files.add(list)       add files that were picked, pasted or dropped
//   isSending(session)    whether one is still on its way     sentFiles(session)   those that have arrived

import { announce, h, icon, keyed, replace } from "../dom.js";
import { iconButton } from "../elements.js";
import { upload } from "../api.js";
import { isPicture, mediaAddress, mediaLabel } from "../media.js";

const MAX_FILES = 100;
let numbers = 0;

export const isSending = (session) => session.files.some((file) => file.state === "sending");
export const sentFiles = (session) => session.files.filter((file) => file.state === "sent").map((file) => file.part);

/** Return the list: { node, show, add }. */
export function attachmentList({ onChange }) {
  const node = h("ul", { class: "attachments", "aria-label": "Attachments", hidden: true });
  let session = null;

  function show(shown = session) {
    session = shown;
    node.hidden = session.files.length === 0;
    keyed(node, session.files, (file) => file.number, make, update);
  }

  function changed() {
    show();
    onChange();
  }

  function make(file) {
    const remove = iconButton("close", `Remove ${file.name}`, () => {
      const next = node.children[file.owner.files.indexOf(file) + 1] ?? node.children[file.owner.files.indexOf(file) - 1];
      file.controller.abort();
      file.owner.files = file.owner.files.filter((one) => one !== file);
      next?.querySelector("button").focus();
      announce(`${file.name} is removed`);
      changed();
      if (!next) document.getElementById("message")?.focus();
    });
    const item = h("li", { class: "attachment" }, h("span", { class: "attachment-picture" }), h("span", { class: "attachment-text" }, h("span", { class: "attachment-name", dir: "auto", title: file.name }, file.name), h("span", { class: "attachment-state" })), remove);
    update(item, file);
    return item;
  }

  function update(item, file) {
    if (item.dataset.state !== file.state) {
      item.dataset.state = file.state;
      const picture = item.firstElementChild;
      replace(picture, file.state === "sent" && isPicture(file.part) ? h("img", { src: mediaAddress(file.part), alt: "" }) : icon(file.state === "failed" ? "failed" : "document"));
      const state = item.querySelector(".attachment-state");
      if (file.state === "sending") replace(state, h("progress", { max: "1", "aria-label": `Sending ${file.name}` }));
      else replace(state, file.state === "sent" ? mediaLabel({ ...file.part, name: "" }) : file.problem);
    }
    const progress = item.querySelector("progress");
    if (progress) progress.value = file.progress;
  }

  function add(list) {
    for (const found of list) {
      const owner = session;
      if (owner.files.length >= MAX_FILES) {
        announce(`A message has at most ${MAX_FILES} attachments`);
        break;
      }
      const file = { number: (numbers += 1), owner, name: found.name || "file", state: "sending", progress: 0, controller: new AbortController() };
      owner.files.push(file);
      send(file, found);
    }
    changed();
  }

  async function send(file, content) {
    try {
      const onProgress = (part) => {
        file.progress = part;
        show();
      };
      const kept = await upload("api/media", content, { signal: file.controller.signal, onProgress });
      Object.assign(file, { state: "sent", part: { ...kept, name: file.name } });
      announce(`${file.name} is attached`);
    } catch (error) {
      if (error.name === "AbortError") return;
      Object.assign(file, { state: "failed", problem: error.message });
      announce(`${file.name} cannot be attached: ${error.message}`);
    }
    changed();
  }

  return { node, show, add };
}
