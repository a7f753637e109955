// What waits for a person: effects that are unknown, and turns that were interrupted. The navigation shows how many.
//   const { effects, turns } = await waiting.look()      asks the server; the newest MOST of each
//   const stop = waiting.on((count) => …)                told whenever that was asked; count: 3, or "99+"

import { get, uiConfig } from "../api.js";

const MOST = 100;
const watchers = new Set();

export const waiting = {
  async look() {
    const [effects, turns] = await Promise.all([unknown(), interrupted()]);
    const count = effects.length + turns.length;
    for (const tell of watchers) tell(count < MOST ? count : `${MOST - 1}+`);
    return { effects, turns };
  },
  on(tell) {
    watchers.add(tell);
    return () => watchers.delete(tell);
  },
};

async function unknown() {
  return (await get("api/effects", { state: "unknown", limit: MOST })).effects;
}

async function interrupted() {
  if (!(await uiConfig()).keeps_conversations) return [];
  try {
    return (await get("api/turns", { state: "interrupted", limit: MOST })).turns;
  } catch (error) {
    if (error.status === 404) return []; // the store of the conversations keeps no journal
    throw error;
  }
}
