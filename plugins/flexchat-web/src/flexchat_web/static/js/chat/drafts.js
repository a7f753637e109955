// Unsent texts and unanswered messages, so that a reload loses neither. The browser stores
// them for this tab only.
//   drafts.text(id)  drafts.write(id, text)     drafts.asked(id)  drafts.ask(id, { text, collections, files, after, turn } or null)
//   drafts.blank(make)  the id of the next new conversation      drafts.begun()  it has begun

const KEY = "flexchat.chat";

let leaving = false;
addEventListener("beforeunload", () => {
  leaving = true;
  setTimeout(() => (leaving = false), 3000); // the user may choose to stay
});
addEventListener("pageshow", () => (leaving = false));

function read() {
  try {
    return { drafts: {}, asked: {}, ...JSON.parse(sessionStorage.getItem(KEY)) };
  } catch {
    return { drafts: {}, asked: {} };
  }
}

function change(how) {
  if (leaving) return; // leaving a page aborts its requests, which is no result
  const all = read();
  how(all);
  try {
    sessionStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // Storage is not available.
  }
}

function put(part, id, value) {
  if (value) part[id] = value;
  else delete part[id];
}

export const drafts = {
  text: (id) => read().drafts[id] || "",
  write: (id, text) => change((all) => put(all.drafts, id, text)),
  asked: (id) => read().asked[id] || null,
  ask: (id, question) => change((all) => put(all.asked, id, question)),
  blank(make) {
    const id = read().blank || make();
    change((all) => (all.blank = id));
    return id;
  },
  begun: () => change((all) => delete all.blank),
};
