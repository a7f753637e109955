// The history of a draft's texts for undo and redo, and their keyboard shortcuts.
//   const history = new History(text);   history.put(text, "typed")   history.undo() · history.redo() → a text, or null
//   undoKeys(page, { undo, redo })       Ctrl+Z, Ctrl+Shift+Z, Ctrl+Y; the browser undoes typing in a focused field

const TOGETHER_MS = 1000;
const MAX_TEXTS = 200;

export class History {
  #texts;
  #at = 0;
  #last = { kind: "", time: 0 };

  constructor(text) {
    this.#texts = [text];
  }

  /** Record a text. Quick successive ones of the same kind are one step; kind "": always a separate step. */
  put(text, kind = "", now = Date.now()) {
    if (text === this.#texts[this.#at]) return;
    const joins = kind && this.#at > 0 && kind === this.#last.kind && now - this.#last.time < TOGETHER_MS;
    this.#last = { kind, time: now };
    this.#texts.length = this.#at + 1;
    if (joins) this.#texts.pop();
    if (text !== this.#texts.at(-1)) this.#texts.push(text);
    if (this.#texts.length > MAX_TEXTS) this.#texts.shift();
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

/** Bind the page's keys for undo and redo. Return a function that unbinds them. */
export function undoKeys(page, { undo, redo }) {
  let activeField = null; // the field with entries in the browser's undo history
  const typed = (event) => (activeField = event.inputType === undefined ? null : event.target);
  const changed = (event) => event.target !== activeField && (activeField = null);
  const pressed = (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
    // The focused element may have been removed, so the keys are handled on the whole page.
    if (document.querySelector("dialog[open]") || !(page.contains(event.target) || event.target.contains(page))) return;
    const again = key === "y" || event.shiftKey;
    const act = again ? redo : undo;
    if (event.target !== activeField) {
      event.preventDefault();
      act();
      return;
    }
    // Left to the browser, unless its undo history is empty.
    const { target } = event;
    const before = target.value;
    setTimeout(() => {
      if (target.value !== before) return;
      activeField = null;
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
