// A turn that runs in the server: it continues when the connection breaks, and is rejoined at the same event.
//   const running = new RunningTurn(null, body, key?)   one that is to begin       new RunningTurn(id)   one that has begun
//   running.key   its idempotency key: another RunningTurn with it and the same body is the same turn
//   const turn = await running.read({ take, begun, broken })   take: for each event;  begun: for its id, once known;
//                                                               broken: when the connection is lost, and retried
//   await turnsUnderWay(conversation?)   turns that run in the server or will be resumed: { id, conversation, message }
//   await running.stop()   running.stopped: whether stop was called       await running.isThere()

import { ApiError, get, newId, post, stream, watch } from "../api.js";

const AGAIN_MS = [200, 500, 1000, 2000, 4000, 8000]; // delays before it is rejoined
const STOPPED = "urn:flexchat:problem:server-stopped"; // the response to joining while the server stops

/** Return the unfinished turns of one stored conversation or of all, newest first; [] if none are stored. */
export async function turnsUnderWay(conversation = "") {
  try {
    const inState = async (state) => (await get("api/turns", { state, conversation, limit: 50 })).turns;
    // A server that was restarted resumes interrupted turns a moment later. One with an error waits for a person. A turn
    // may pass from interrupted to running between the two requests, hence the order: it is then in both lists.
    const interrupted = (await inState("interrupted")).filter((turn) => !turn.error);
    const running = await inState("running");
    const ids = new Set(running.map((turn) => turn.id));
    return [...running, ...interrupted.filter((turn) => !ids.has(turn.id))];
  } catch {
    return []; // without a journal, only the page that began a turn can join it
  }
}

/** Return the message a turn answers, in full. */
export async function messageOf({ id, message }) {
  try {
    const { steps } = await get(`api/turns/${encodeURIComponent(id)}`);
    return steps.find((step) => step.kind === "started")?.data.request.user_message || message;
  } catch {
    return message;
  }
}

export class RunningTurn {
  constructor(id, body = null, key = newId()) {
    this.id = id;
    this.stopped = false;
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

  /** Read it to its end, and return the turn. */
  async read({ take, begun, broken }) {
    let tries = 0;
    for (;;) {
      try {
        for await (const happened of this.#events()) {
          tries = 0;
          this.last = happened.id || this.last;
          if (happened.event === "turn") return happened.data;
          if (happened.event === "interrupted") throw interruption();
          if (happened.event === "error") throw new ApiError(happened.data.status || 500, happened.data);
          if (happened.event === "turn_started") {
            this.id = happened.data.id;
            begun(this.id);
          }
          take(happened);
        }
        throw interruption();
      } catch (error) {
        if (this.ended) return this.ended;
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
  }

  #path(what) {
    return `api/turns/${encodeURIComponent(this.id)}/${what}`;
  }
}

function interruption() {
  return new ApiError(0, { title: "Cut off", detail: "The connection ended before the answer was complete." });
}
