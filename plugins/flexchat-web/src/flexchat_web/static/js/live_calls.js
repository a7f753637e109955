// The tool calls of a streamed answer: a card for each, inserted by the caller.
//   const calls = liveCalls((card) => place.append(card));
//   calls.take({ event, data })  each event of the stream       calls.stop()  the stream has ended
//   calls.clear()  discards all calls; those that count are sent again

import { toolCallCard } from "./tool_call.js";

/** Return { take, stop }. */
export function liveCalls(place) {
  let written = new Map(); // of the answer under way: index → card
  const waiting = []; // written, not yet started: { name, card }
  const running = new Map(); // call_id → card

  function made(name) {
    const card = toolCallCard({ name });
    place(card.node);
    return card;
  }

  const on = {
    tool_call({ index, name }) {
      const card = made(name);
      written.set(index, card);
      waiting.push({ name, card });
    },
    tool_arguments: ({ index, arguments: part }) => written.get(index)?.write(part),
    tool_started({ call_id: id, name, arguments: given }) {
      const at = waiting.findIndex((one) => one.name === name);
      const card = at < 0 ? made(name) : waiting.splice(at, 1)[0].card;
      running.set(id, card);
      card.start(given);
    },
    tool_finished({ call_id: id, tool, result, ...call }) {
      const card = running.get(id) || made(tool);
      running.delete(id);
      card.finish(result, call);
    },
    answer_end: () => (written = new Map()),
  };
  return {
    take: ({ event, data }) => on[event]?.(data),
    clear() {
      written = new Map();
      waiting.length = 0;
      running.clear();
    },
    stop: () => [...waiting.map((one) => one.card), ...running.values()].forEach((card) => card.stop()),
  };
}
