// The text with line numbers, and the problems of each line.
//   const editor = textEditor({ onInput(text) {…}, readOnly });    editor.node  editor.text = "…"
//   editor.mark([{ line, text, kind: "bad" | "warn" }])            editor.show(line)    select a line

import { h, keyed, uid } from "../dom.js";

const INDENT = "  ";
const TAB = 2; // as in the stylesheet
const EDGE_PX = 12;
const GAP_PX = 14; // between a line and its note
const LEAST_ROOM_PX = 90;

const ruler = document.createElement("canvas").getContext("2d");

/** Return an editor. */
export function textEditor({ onInput, readOnly = false, label = "Text of the configuration" }) {
  const id = uid("editor");
  const gutter = h("div", { class: "editor-gutter", "aria-hidden": "true" });
  const notes = h("div", { class: "editor-notes", "aria-hidden": "true" });
  const area = h("textarea", {
    class: "editor-area",
    readOnly,
    wrap: "off",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    "aria-label": label,
    "aria-describedby": readOnly ? null : id,
    onInput: () => {
      number();
      place();
      onInput(area.value);
    },
    onScroll: () => follow(),
    onKeydown: (event) => key(event),
  });
  const node = h(
    "div",
    { class: "editor" },
    h("div", { class: "editor-frame" }, h("div", { class: "editor-gutter-window" }, gutter), h("div", { class: "editor-view" }, notes, area)),
    !readOnly && h("p", { class: "field-hint editor-hint", id }, "Tab indents. To leave the text by keyboard: Escape, then Tab."),
  );
  let leaving = false;
  let marks = new Map(); // line → { kind, texts }
  let lines = 0;

  function key(event) {
    if (event.key === "Escape") {
      leaving = true;
      return;
    }
    if (event.key === "Tab" && !leaving && !readOnly && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      indent(event.shiftKey);
    }
    if (event.key !== "Shift") leaving = false;
  }

  // Only execCommand preserves the browser's undo history.
  function indent(back) {
    const { value, selectionStart: from, selectionEnd: to } = area;
    if (!back && from === to) {
      document.execCommand("insertText", false, INDENT);
      return;
    }
    const start = value.lastIndexOf("\n", from - 1) + 1;
    const block = value.slice(start, to);
    const moved = back ? block.replace(/^ {1,2}/gm, "") : block.replace(/^(?=.)/gm, INDENT);
    if (moved === block) return;
    area.setSelectionRange(start, to);
    document.execCommand("insertText", false, moved);
    area.setSelectionRange(start, start + moved.length);
  }

  function number() {
    const wanted = area.value.split("\n").length;
    if (wanted === lines) return;
    while (lines > wanted) gutter.children[--lines].remove();
    const added = [];
    while (lines < wanted) added.push(h("span", {}, String(++lines)));
    gutter.append(...added);
    tint();
  }

  function tint() {
    for (const [index, span] of [...gutter.children].entries()) span.className = marks.get(index + 1)?.kind || "";
  }

  function place() {
    const all = area.value.split("\n");
    keyed(
      notes,
      [...marks].filter(([line]) => line <= all.length),
      ([line]) => line,
      () => h("span", {}),
      () => {},
    );
    for (const node of notes.children) {
      const { kind, texts } = marks.get(Number(node.dataset.key));
      node.className = `editor-note ${kind}`;
      node.textContent = texts.join(" · ");
      node.style.setProperty("--line", String(Number(node.dataset.key) - 1));
      // A note is shown on its own line, after the text, and clipped at the edge. Without room for a few words it is
      // omitted: the line number is marked, and the list of problems has the whole text.
      const end = width(all[Number(node.dataset.key) - 1]) + GAP_PX;
      const room = area.clientWidth - 2 * EDGE_PX - end;
      node.style.setProperty("--end", `${end}px`);
      node.style.setProperty("--room", `${room}px`);
      node.hidden = room < LEAST_ROOM_PX;
    }
    follow();
  }

  function follow() {
    gutter.style.setProperty("--top", `${-area.scrollTop}px`);
    notes.style.setProperty("--top", `${-area.scrollTop}px`);
    notes.style.setProperty("--left", `${-area.scrollLeft}px`);
  }

  /** Measure the width of a line, in pixels. */
  function width(line) {
    const { fontStyle, fontWeight, fontSize, fontFamily } = getComputedStyle(area); // the shorthand may be empty
    ruler.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
    let spaced = "";
    for (const sign of line) spaced += sign === "\t" ? " ".repeat(TAB - (spaced.length % TAB)) : sign;
    return ruler.measureText(spaced).width;
  }

  new ResizeObserver(() => place()).observe(area);

  return {
    node,
    get text() {
      return area.value;
    },
    set text(value) {
      if (value === area.value) return;
      const { scrollTop, scrollLeft, selectionStart } = area;
      area.value = value;
      area.setSelectionRange(selectionStart, selectionStart);
      area.scrollTo(scrollLeft, scrollTop);
      number();
      place();
    },
    mark(list) {
      marks = new Map();
      for (const { line, text, kind } of list) {
        if (!line) continue;
        const one = marks.get(line) || { kind, texts: [] };
        one.texts.push(text);
        if (kind === "bad") one.kind = "bad";
        marks.set(line, one);
      }
      tint();
      place();
    },
    show(line, { focus = true } = {}) {
      const all = area.value.split("\n");
      const start = all.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
      if (focus) area.focus({ preventScroll: true });
      area.setSelectionRange(start, start + (all[line - 1] || "").length);
      area.scrollTo(0, (line - 1) * (area.scrollHeight / Math.max(1, all.length)) - area.clientHeight / 3);
      follow();
    },
  };
}

