// The page's conversations: those stored on the server, and those that exist only here. They outlive the page
// Chat: an answer continues in its own session while another page or session is shown.
//   sessions.on(() => …)      something changed      sessions.load()  sessions.more()  sessions.find(id)  sessions.fresh()
//   session.send(text, collections, files)  session.stop()  session.open()  session.refresh()  session.rename(title)
//   session.remove()

import { h, announce } from "../dom.js";
import { ApiError, del, get, newId, patch, uiConfig } from "../api.js";
import { waiting } from "../activity/waiting.js";
import { answerView, interruptedAnswer, storedAnswer } from "./answer.js";
import { drafts } from "./drafts.js";
import { titleOf } from "./title.js";
import { mediaList } from "../media.js";
import { RunningTurn, messageOf, turnsUnderWay } from "./running_turn.js";

const PAGE = 50;
const SETTLE_MS = [0, 150, 300, 600, 1200]; // a server stores the turn shortly after its client has disconnected

class Session {
  constructor(id, title = "") {
    this.id = id;
    this.title = title;
    this.updated = null; // from the server's list
    this.seen = null; // its value when the turns were last read
    this.cost = null; // of all its turns, from the server
    this.rules = []; // the costs by rule: { rule, turns, cost }
    this.kept = false; // whether it is stored on the server
    this.loaded = true;
    this.missing = false; // whether the server does not have it
    this.problem = null; // the error that kept it from being opened
    this.turns = []; // its displayed turns, in order: { id, turn, text, nodes, over, done, data, said };
    // id null: not on the server; said: [{ role, content }], for a server without conversations
    this.topic = null;
    this.running = null; // RunningTurn
    this.watched = false; // whether it is shown
    this.files = []; // of the message that is being written: see attachments.js
    this.underWay = ""; // the state of an unfinished turn that this page does not show
  }

  get nodes() {
    return this.turns.flatMap((turn) => turn.nodes);
  }

  get draft() {
    return drafts.text(this.id);
  }

  set draft(text) {
    drafts.write(this.id, text);
  }

  /** Whether a message can be sent: one that follows a suspended turn ends that, or is queued behind it. */
  get isFree() {
    return !this.running || this.running.suspended;
  }

  /** Follow the session's suspended turn only while the session is shown. */
  watch(watched) {
    this.watched = watched;
    this.running?.watch(watched);
  }

  /** Load the stored turns, once. */
  async open() {
    if (this.loaded) return;
    this.problem = null;
    // Requested before the conversation: a turn that ends between the two requests is then in both, not in neither.
    const unfinished = await turnsUnderWay(this.id);
    try {
      await this.#read();
    } catch (error) {
      if (error.status !== 404) this.problem = error;
      else if (drafts.asked(this.id) || unfinished.length) this.loaded = true; // its first turn is unfinished
      else this.missing = true;
    }
    const interruptedTurn = this.loaded && !(await this.#rejoin(unfinished)) && this.#showInterrupted();
    sessions.changed();
    if (interruptedTurn) await this.#settle(interruptedTurn);
  }

  /** Return a turn from the server; undefined if there is none. */
  turn(id) {
    return this.turns.find((one) => one.data?.id === id);
  }

  /** Load the changes that others have made meanwhile. */
  async refresh() {
    if (!this.loaded || this.running || this.missing || (!this.kept && !this.underWay)) return;
    const same = sessions.listed.includes(this.id) && this.updated === this.seen;
    const unfinished = await turnsUnderWay(this.id); // requested before the conversation, as in open
    if (this.kept && !same) await this.#sync();
    if (!this.missing) await this.#rejoin(unfinished);
  }

  async #sync() {
    try {
      await this.#read();
    } catch (error) {
      if (error.status !== 404) return; // the next refresh retries
      this.missing = true;
    }
    sessions.changed();
  }

  async #read() {
    const whole = await get(`api/conversations/${encodeURIComponent(this.id)}`);
    this.title = whole.title;
    this.seen = this.updated = whole.updated_at;
    [this.cost, this.rules] = [whole.cost ?? null, whole.rules ?? []];
    this.loaded = this.kept = true;
    if (!this.running) this.topic = whole.turns.at(-1)?.topic || null;
    this.#merge(whole.turns);
  }

  /** Merge the server's turns; displayed turns and those that only the page has are preserved. */
  #merge(turns) {
    const rest = [...this.turns];
    const merged = [];
    for (const turn of turns) {
      const isInterrupted = (one) => one.over && !one.id && !one.data && one.text === textOf(turn);
      const found = rest.findIndex((one) => idOf(one) === turn.id || isInterrupted(one));
      const passed = rest.splice(0, found + 1);
      const shown = passed.pop() || { text: textOf(turn) };
      // A turn that was interrupted here is replaced by the stored one; an answered one stays unchanged.
      if (!shown.done) Object.assign(shown, { nodes: this.#stored(turn), over: true, done: true });
      merged.push(...passed.filter((one) => !one.id), Object.assign(shown, { id: turn.id, data: turn }));
    }
    this.turns = [...merged, ...rest.filter((one) => !one.id)];
  }

  #stored(turn) {
    const again = () => this.running || this.send(textOf(turn), null, mediaOf(turn));
    return [...askedNodes(turn), storedAnswer(turn, { conversation: this.id, again })];
  }

  /** Wait until the server has stored an interrupted turn, if it stores any. */
  async #settle(shown, waits = SETTLE_MS) {
    if (!(await uiConfig()).keeps_conversations) return;
    for (const wait of waits) {
      await new Promise((go) => setTimeout(go, wait));
      if (shown.id || !this.turns.includes(shown) || this.running) break;
      const found = await this.#read().then(() => true, () => false);
      if (found && shown.id) drafts.ask(this.id, null);
    }
    sessions.changed();
  }

  /** Join a running turn: this page's own from before it was left, or another client's; return whether there was one. */
  async #rejoin(unfinished) {
    const isNew = (id) => !this.running && !this.turns.some((one) => idOf(one) === id);
    const asked = drafts.asked(this.id);
    if (asked?.turn && isNew(asked.turn)) {
      const own = new RunningTurn(asked.turn);
      if ((await own.isThere()) && isNew(own.id)) {
        this.#answer(asked.text, asked.collections, asked.files, own);
        return true;
      }
    }
    const [other] = unfinished.filter((one) => isNew(one.id)).reverse(); // the oldest runs first
    if (!other) return false;
    const { text, files } = await messageOf(other);
    if (!isNew(other.id)) return false;
    this.#answer(text, null, files, new RunningTurn(other.id));
    return true;
  }

  /** Show and return the message sent before the page was left, unless the server has it. */
  #showInterrupted() {
    const asked = drafts.asked(this.id);
    if (!asked || this.running) return null;
    if (this.turns.slice(asked.after).some((one) => one.text === asked.text)) {
      drafts.ask(this.id, null);
      return null;
    }
    const again = () => {
      if (this.running) return;
      this.turns = this.turns.filter((one) => one !== turn);
      this.send(asked.text, asked.collections, asked.files);
    };
    const turn = { id: null, text: asked.text, nodes: [askedNode(asked.text, asked.files), interruptedAnswer(again)], over: true };
    this.title ||= titleOf(asked.text || asked.files?.[0]?.name || "");
    this.turns.push(turn);
    return turn;
  }

  /** Send a message with files that the server has; the answer is added to this session even if another one is shown. */
  async send(text, collections = null, files = [], key = undefined) {
    const { keeps_conversations: keeps } = await uiConfig();
    const body = { prompt: text, stream: true, questions: true, ...(collections && { selectedCollections: collections }) };
    if (files?.length) body.attachments = files.map(({ sha256, name }) => ({ sha256, ...(name && { name }) }));
    if (keeps) body.conversation = this.id;
    else Object.assign(body, { previousMessages: this.turns.flatMap((one) => one.said || []), topic: this.topic });
    this.draft = "";
    await this.#answer(text, collections, files, new RunningTurn(null, body, key));
  }

  /** Show a turn while it runs, and as it ends. */
  async #answer(text, collections, files, running) {
    const answer = answerView();
    const shown = { id: null, text, nodes: [askedNode(text, files), answer.node], done: false };
    this.turns.push(shown);
    this.running = running;
    running.watch(this.watched);
    this.underWay = "";
    this.title ||= titleOf(text || files?.[0]?.name || "");
    const after = this.turns.filter((one) => one.done).length;
    const isLast = () => this.running === running || this.running === null; // no message was sent after it
    const remember = (turn) => {
      shown.turn = turn;
      if (isLast()) drafts.ask(this.id, { text, collections, files, after, turn });
    };
    const take = (happened) => {
      answer.take(happened);
      if (["suspended", "turn_resumed"].includes(happened.event)) sessions.changed();
    };
    remember(running.id);
    sessions.add(this);
    const forget = () => (this.turns = this.turns.filter((one) => one !== shown));
    const again = () => {
      if (this.running) return;
      forget();
      this.send(text, collections, files, lost ? running.key : undefined);
    };
    // Otherwise a conversation that was deleted elsewhere would begin anew with this turn.
    if (this.kept && !running.id) await this.#sync();
    if (this.missing) {
      forget();
      this.running = null;
      this.draft = text;
      drafts.ask(this.id, null);
      sessions.changed();
      return;
    }
    let turn;
    let problem;
    let lost = false; // whether the server may have received the request, while its turn is unknown
    try {
      turn = await running.read({ take, begun: remember, broken: answer.broken });
    } catch (error) {
      problem = error;
      lost = error.status === 0 && !running.id;
    }
    const stopped = turn ? turn.status !== "done" : running.stopped;
    waiting.look().catch(() => {}); // a tool may have left an unknown effect
    shown.over = true;
    if (isLast()) {
      this.running = null; // before a retry button is shown
      drafts.ask(this.id, null);
    }
    sessions.changed();
    const said = turn && !stopped ? turn.content : answer.said();
    shown.said = [{ role: "user", content: text }, ...(said ? [{ role: "assistant", content: said }] : [])];
    if (turn && !stopped) {
      this.topic = turn.topic || null;
      this.kept ||= Boolean(turn.conversation);
      Object.assign(shown, { done: true, data: { at: new Date().toISOString(), ...turn } });
      await answer.finish(shown.data, { conversation: this.id, asked: text });
      announce(`Answer: ${turn.content.slice(0, 300)}`);
    } else if (stopped) {
      await answer.stop(again);
      announce("Stopped");
    } else {
      if (!(problem instanceof ApiError)) console.error(problem);
      await answer.fail(problem, again);
    }
    if (stopped || problem) await this.#settle(shown, !turn && (stopped || problem.status === 0) ? SETTLE_MS : [0]);
    if (this.kept) await Promise.all([this.#sync(), sessions.load()]);
  }

  /** Stop the running answer. */
  async stop() {
    await this.running?.stop();
  }

  async rename(title) {
    if (this.kept) await patch(`api/conversations/${encodeURIComponent(this.id)}`, { title });
    this.title = title;
    sessions.changed();
  }

  async remove() {
    await this.stop(); // otherwise the end of its turn would create it again
    if (this.kept) await del(`api/conversations/${encodeURIComponent(this.id)}`);
    sessions.drop(this);
  }
}

class Sessions {
  constructor() {
    this.known = new Map(); // id → Session
    this.listed = []; // ids in the server's order
    this.search = "";
    this.hasMore = false;
    this.problem = null;
    this.watchers = new Set();
    this.blank = null;
  }

  on(watcher) {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  changed() {
    for (const watcher of this.watchers) watcher();
  }

  /** The sessions to list: those only here first, then the server's in its order. */
  get list() {
    const wanted = this.search.trim().toLowerCase();
    const here = [...this.known.values()].filter(
      (one) => !this.listed.includes(one.id) && (one.turns.length || one.underWay) && !one.missing && (!wanted ? !one.kept || one.running || one.underWay : one.title.toLowerCase().includes(wanted)),
    );
    return [...here.reverse(), ...this.listed.map((id) => this.known.get(id)).filter(Boolean)];
  }

  /** Ask the server for the newest. */
  async load() {
    const { keeps_conversations: keeps } = await uiConfig();
    if (!keeps) return;
    const search = this.search;
    try {
      const [{ conversations }, underWay] = await Promise.all([get("api/conversations", { search, limit: PAGE }), turnsUnderWay()]);
      if (search !== this.search) return;
      this.listed = [];
      this.#take(conversations);
      this.#mark(underWay);
      this.problem = null;
    } catch (error) {
      this.problem = error;
    }
    this.changed();
  }

  /** Ask for older ones. */
  async more() {
    const { conversations } = await get("api/conversations", { search: this.search, limit: PAGE, before: this.listed.at(-1) });
    this.#take(conversations);
    this.changed();
  }

  #take(conversations) {
    for (const { id, title, updated_at: updated, cost, turns } of conversations) {
      if (turns === 0) continue; // its first turn is under way: see #mark
      if (!this.known.has(id)) {
        this.known.set(id, new Session(id));
        this.known.get(id).loaded = false;
      }
      Object.assign(this.known.get(id), { title, updated, cost, kept: true });
      this.listed.push(id);
    }
    this.hasMore = conversations.length === PAGE;
  }

  /** Mark the sessions with running turns; a new one is not listed before its first answer. */
  #mark(turns) {
    const found = new Map(turns.map((turn) => [turn.conversation, turn]));
    for (const session of this.known.values()) session.underWay = session.running ? "" : (found.get(session.id)?.state ?? "");
    for (const [id, { message, state }] of found) {
      if (this.known.has(id)) continue;
      this.known.set(id, Object.assign(new Session(id, titleOf(message)), { loaded: false, underWay: state }));
    }
  }

  /** Return a session by its id, which may exist on the server only. */
  find(id) {
    if (!this.known.has(id)) {
      const session = new Session(id);
      session.loaded = false;
      this.known.set(id, session);
    }
    return this.known.get(id);
  }

  /** Return the session for a new conversation. */
  fresh() {
    this.blank ||= new Session(drafts.blank(newId));
    return this.blank;
  }

  add(session) {
    if (this.blank === session) {
      this.blank = null;
      drafts.begun();
    }
    this.known.set(session.id, session);
    this.changed();
  }

  drop(session) {
    session.draft = "";
    this.known.delete(session.id);
    this.listed = this.listed.filter((id) => id !== session.id);
    this.changed();
  }
}

function askedNode(text, files) {
  return h("article", { class: "message asked", "aria-label": "You" }, text && h("p", { dir: "auto" }, text), mediaList(files, { label: "Attachments" }));
}

function askedNodes(turn) {
  return turn.messages.filter((one) => one.role === "user" && (one.content || one.media?.length)).map((one) => askedNode(one.content, one.media));
}

/** Return the id of a shown turn, which may still run; undefined if it is not known. */
function idOf(shown) {
  return shown.id ?? shown.data?.id ?? shown.turn;
}

function textOf(turn) {
  return turn.messages.find((one) => one.role === "user")?.content;
}

function mediaOf(turn) {
  return turn.messages.find((one) => one.role === "user")?.media;
}

export const sessions = new Sessions();
