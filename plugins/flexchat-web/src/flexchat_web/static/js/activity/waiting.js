// Items that need a person: unknown effects and interrupted turns, whose number the navigation shows, and questions.
//   const { effects, turns } = await waiting.look()      requests both lists; the newest MAX_LISTED of each
//   await openQuestions()                                the newest MAX_LISTED that wait for a reply
//   const stop = waiting.on((count) => …)                called after each request; count: 3, or "99+"

import { get, uiConfig } from "../api.js";

const MAX_LISTED = 100;
const watchers = new Set();

export const waiting = {
  async look() {
    const [effects, turns] = await Promise.all([unknown(), interrupted()]);
    const count = effects.length + turns.length;
    for (const tell of watchers) tell(count < MAX_LISTED ? count : `${MAX_LISTED - 1}+`);
    return { effects, turns };
  },
  on(tell) {
    watchers.add(tell);
    return () => watchers.delete(tell);
  },
};

export async function openQuestions() {
  if (!(await uiConfig()).keeps_conversations) return [];
  try {
    return (await get("api/questions", { state: "open", limit: MAX_LISTED })).questions;
  } catch (error) {
    if (error.status === 404) return []; // this conversation store has no journal
    throw error;
  }
}

async function unknown() {
  return (await get("api/effects", { state: "unknown", limit: MAX_LISTED })).effects;
}

async function interrupted() {
  if (!(await uiConfig()).keeps_conversations) return [];
  try {
    return (await get("api/turns", { state: "interrupted", limit: MAX_LISTED })).turns;
  } catch (error) {
    if (error.status === 404) return []; // this conversation store has no journal
    throw error;
  }
}
