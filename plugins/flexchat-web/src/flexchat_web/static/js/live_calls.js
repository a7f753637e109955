// An answer of the server's as it comes: tool calls as cards, and the text.
//   const live = liveAnswer({ onText(text) {…} });   place.append(live.calls);
//   live.take(event, data)      one event of the stream      live.stop()      it was cancelled

import { h } from "./dom.js";
import { toolCallCard } from "./tool_call.js";

/** Return { calls, take, stop, count }. */
export function liveAnswer({ onText = () => {}, onCall = () => {} } = {}) {
  const calls = h("div", { class: "stack tight" });
  let written = new Map(); // of the answer under way: index → card
  let waiting = []; // written, not yet started: { name, card }
  const started = new Map(); // call_id → card
  const all = [];
  let text = "";

  function made(name) {
    const card = toolCallCard({ name });
    all.push(card);
    calls.append(card.node);
    onCall(all.length);
    return card;
  }

  const takes = {
    text: ({ text: part }) => onText((text += part)),
    tool_call({ index, name }) {
      const card = made(name);
      written.set(index, card);
      waiting.push({ name, card });
    },
    tool_arguments: ({ index, arguments: part }) => written.get(index)?.write(part),
    tool_started({ call_id: id, name, arguments: given }) {
      const at = waiting.findIndex((one) => one.name === name);
      const card = at < 0 ? made(name) : waiting.splice(at, 1)[0].card;
      started.set(id, card);
      card.start(given);
    },
    tool_finished: ({ call_id: id, tool, result, iteration, params }) => (started.get(id) || made(tool)).finish(result, { iteration, params }),
    answer_end() {
      written = new Map();
      if (text) onText((text += "\n\n"));
    },
  };
  return {
    calls,
    get count() {
      return all.length;
    },
    take: (event, data) => takes[event]?.(data),
    stop: () => all.forEach((card) => card.stop()),
  };
}
