// A turn that runs in the server: it continues when the connection breaks, and is rejoined at the same event.
//   const running = new RunningTurn(null, body, key?)   one that is to begin       new RunningTurn(id)   one that has begun
//   running.key   its idempotency key: another RunningTurn with it and the same body is the same turn
//   const turn = await running.read({ take, begun, broken })   take: for each event;  begun: for its id, once known;
//                                                               broken: when the connection is lost, and retried
//   await turnsUnderWay(conversation?)   unfinished turns that need nothing mended: { id, conversation, message, state }
//   await running.stop()   running.stopped: whether stop was called       await running.isThere()
//   running.suspended      whether it waits for a reply to a question; it is then read while running.watch(true) holds

import { ApiError, get, newId, post, stream, watch } from "../api.js";

const AGAIN_MS = [200, 500, 1000, 2000, 4000, 8000]; // delays before it is rejoined
const STOPPED = "urn:flexchat:problem:server-stopped"; // the response to joining while the server stops

/** Return the unfinished turns of one stored conversation or of all, newest first; [] if none are stored. */
export async function turnsUnderWay(conversation = "") {
  try {
    const inState = async (state) => (await get("api/turns", { state, conversation, limit: 50 })).turns;
    // A server resumes interrupted turns a moment later. One with an error waits for a person. A turn may pass to a later
    // state between two requests, hence the order: it is then in both lists.
    const found = new Map();
    for (const state of ["accepted", "suspended", "interrupted", "running"]) {
      for (const turn of await inState(state)) if (state !== "interrupted" || !turn.error) found.set(turn.id, turn);
    }
    return [...found.values()].sort((one, other) => other.began_at.localeCompare(one.began_at));
  } catch {
    return []; // without a journal, only the page that began a turn can join it
  }
}

/** Return the message a turn answers, in full: { text, files }. */
export async function messageOf({ id, message }) {
  try {
    const { steps } = await get(`api/turns/${encodeURIComponent(id)}`);
    const request = steps.find((step) => step.kind === "started")?.data.request;
    return { text: request?.user_message ?? message, files: request?.attachments ?? [] };
  } catch {
    return { text: message, files: [] };
  }
}

export class RunningTurn {
  constructor(id, body = null, key = newId()) {
    this.id = id;
    this.stopped = false;
    this.suspended = false;
    this.watched = true;
    this.wake = () => {};
    this.body = body;
    this.key = key;
    this.last = "";
    this.ended = null; // the turn in the response to stop
    this.controller = new AbortController();
  }

  /** Whether the server still has it. */
  async isThere() {
    const controller = new AbortController();
    try {
      for await (const happened of watch(this.#path("events"), { signal: controller.signal })) return Boolean(happened);
    } catch {
      // It has ended long ago, or the server was restarted.
    } finally {
      controller.abort();
    }
    return false;
  }

  /** Whether somebody sees it: a suspended turn, which may last for days, needs no connection meanwhile. */
  watch(watched) {
    this.watched = watched;
    if (watched) this.wake();
    else if (this.suspended) this.controller.abort();
  }

  /** Read it to its end, and return the turn. */
  async read({ take, begun, broken }) {
    let tries = 0;
    for (;;) {
      try {
        if (this.suspended && !this.watched) {
          await new Promise((go) => (this.wake = go));
        }
        if (this.controller.signal.aborted && !this.stopped) this.controller = new AbortController();
        for await (const happened of this.#events()) {
          tries = 0;
          this.last = happened.id || this.last;
          if (happened.event === "turn") return happened.data;
          if (happened.event === "interrupted") throw interruption();
          if (happened.event === "error") throw new ApiError(happened.data.status || 500, happened.data);
          this.suspended = happened.event === "suspended";
          if (happened.event === "turn_started") {
            this.id = happened.data.id;
            begun(this.id);
          }
          take(happened);
        }
        if (!this.suspended) throw interruption(); // the answer to its request ends when it is suspended
      } catch (error) {
        if (this.ended) return this.ended;
        if (this.suspended && !this.stopped && error.name === "AbortError") continue;
        if (tries && (error.status === 404 || error.status === 410)) throw interruption();
        const away = error.status === 0 || error.problem?.type === STOPPED;
        const lost = away && !error.problem?.stopped && this.id && !this.stopped;
        if (!lost || tries >= AGAIN_MS.length) throw error;
        broken();
        await new Promise((go) => setTimeout(go, AGAIN_MS[tries]));
        tries += 1;
      }
    }
  }

  #events() {
    const { signal } = this.controller;
    if (!this.id) return stream("chat/api", this.body, { signal, key: this.key });
    return watch(this.#path("events"), { signal, lastEventId: this.last });
  }

  /** Stop the turn. Its partial result is stored when this returns. */
  async stop() {
    this.stopped = true;
    if (this.id) {
      try {
        this.ended = (await post(this.#path("cancel"), null)).turn;
      } catch {
        // It has ended, or the server cannot be reached: then it has no listener any more.
      }
    }
    this.controller.abort();
    this.wake();
  }

  #path(what) {
    return `api/turns/${encodeURIComponent(this.id)}/${what}`;
  }
}

function interruption() {
  return new ApiError(0, { title: "Cut off", detail: "The connection ended before the answer was complete." });
}
