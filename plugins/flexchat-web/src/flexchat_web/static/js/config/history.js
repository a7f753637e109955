// The texts a draft had, so that a change can be undone and done again; and the keys for it.
//   const history = new History(text);   history.put(text, "typed")   history.undo() · history.redo() → a text, or null
//   undoKeys(page, { undo, redo })       Ctrl+Z, Ctrl+Shift+Z, Ctrl+Y; what was just typed in a field its browser undoes

const TOGETHER_MS = 1000;
const MOST = 200;

export class History {
  #texts;
  #at = 0;
  #last = { kind: "", time: 0 };

  constructor(text) {
    this.#texts = [text];
  }

  /** Note a text. Those of one kind that follow each other quickly are one step; kind "": always a step of its own. */
  put(text, kind = "", now = Date.now()) {
    if (text === this.#texts[this.#at]) return;
    const joins = kind && this.#at > 0 && kind === this.#last.kind && now - this.#last.time < TOGETHER_MS;
    this.#last = { kind, time: now };
    this.#texts.length = this.#at + 1;
    if (joins) this.#texts.pop();
    if (text !== this.#texts.at(-1)) this.#texts.push(text);
    if (this.#texts.length > MOST) this.#texts.shift();
    this.#at = this.#texts.length - 1;
  }

  undo() {
    return this.#go(this.#at - 1);
  }

  redo() {
    return this.#go(this.#at + 1);
  }

  #go(to) {
    if (to < 0 || to >= this.#texts.length) return null;
    this.#at = to;
    this.#last = { kind: "", time: 0 };
    return this.#texts[to];
  }
}

/** Have keys of a page undo and redo. Return a function that ends it. */
export function undoKeys(page, { undo, redo }) {
  let typedIn = null; // the field whose browser has something to undo
  const typed = (event) => (typedIn = event.inputType === undefined ? null : event.target);
  const changed = (event) => event.target !== typedIn && (typedIn = null);
  const pressed = (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
    // What had the focus may be gone, so that the keys come to all of the page.
    if (document.querySelector("dialog[open]") || !(page.contains(event.target) || event.target.contains(page))) return;
    const again = key === "y" || event.shiftKey;
    const act = again ? redo : undo;
    if (event.target !== typedIn) {
      event.preventDefault();
      act();
      return;
    }
    // The browser's own, unless it has nothing (left) to undo.
    const { target } = event;
    const before = target.value;
    setTimeout(() => {
      if (target.value !== before) return;
      typedIn = null;
      act();
    });
  };
  page.addEventListener("input", typed);
  page.addEventListener("change", changed);
  document.addEventListener("keydown", pressed);
  return () => {
    page.removeEventListener("input", typed);
    page.removeEventListener("change", changed);
    document.removeEventListener("keydown", pressed);
  };
}
