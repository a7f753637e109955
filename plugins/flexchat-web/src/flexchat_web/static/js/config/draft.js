// The draft of the configuration: one text, changed by both the form and the editor.
//   const draft = await openDraft();    draft.subscribe((what) => …)    "text", "data", "problems" or "status"
//   draft.type(text)            the user typed                draft.at(["llms", "x"])    the tables, as last read
//   await draft.undo()  await draft.redo()    any change
//   await draft.change([…])     a change of the form: the server rewrites the text and preserves its comments
//   draft.errors, draft.warnings [{ path, text, line, place }]
//   draft.status: "clean" (as saved), "changed" (not checked yet), "checking", "valid", "invalid"
//   await draft.look()          detect changes of the file by others; draft.theirs: the other version, if the draft
//                               has changes as well; then draft.takeTheirs() or draft.keepMine(). draft.inForce: the file is in use

import { get, post, put, uiConfig, ApiError } from "../api.js";
import { toast } from "../dialog.js";
import { History } from "./history.js";
import { at, parsePath } from "./paths.js";

const PAUSE_MS = 300;

/** Read the configuration and its schema. */
export async function openDraft() {
  const [answer, schema] = await Promise.all([get("api/config"), get("api/config/schema")]);
  const draft = new Draft(answer, schema);
  await draft.check();
  return draft;
}

class Draft {
  #listeners = new Set();
  #timer = null;
  #checks = 0;
  #queue = Promise.resolve();
  #saving = false;
  #history;
  unsent = new Set(); // functions that send the pending input of controls

  constructor(answer, schema) {
    this.schema = schema;
    this.#take(answer);
    this.#history = new History(this.text);
  }

  #take(answer) {
    Object.assign(this, { name: answer.name, format: answer.format || "toml", text: answer.text, saved: answer.text, version: answer.version, editable: answer.editable, others: answer.others || [], inForce: answer.in_force, theirs: null });
    this.notes = answer.notes || [];
    this.data = answer.config ?? null;
    this.savedData = this.data;
    this.readable = this.data !== null;
    this.errors = (answer.problems || []).map(placed);
    this.warnings = [];
    this.status = this.errors.length ? "invalid" : "clean";
  }

  /** Call listener(what) at every change; return a function that unsubscribes. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(what) {
    for (const listener of this.#listeners) listener(what);
  }

  get changed() {
    return this.text !== this.saved;
  }

  at(path) {
    return at(this.data, path);
  }

  /** Set the text that the user typed. */
  type(text) {
    if (text === this.text) return;
    this.text = text;
    this.#history.put(text, "typed");
    this.#later();
  }

  /** Replace the whole text. */
  restore(text) {
    this.text = text;
    this.#history.put(text);
    this.#tell("text");
    this.#later();
  }

  /** Undo the last change. */
  undo() {
    return this.#travel(() => this.#history.undo());
  }

  /** Redo the last undone change. */
  redo() {
    return this.#travel(() => this.#history.redo());
  }

  async #travel(go) {
    await Promise.all([...this.unsent].map((send) => send()));
    await this.#queue;
    const text = this.editable ? go() : null;
    if (text === null) return false;
    clearTimeout(this.#timer);
    this.text = text;
    this.#tell("text");
    await this.check();
    return true;
  }

  /** Apply changes ({path, value} …) to the text, one after the other; return whether they succeeded. */
  change(changes) {
    if (!changes.length) return Promise.resolve(true);
    const done = this.#queue.then(() => this.#edit(changes));
    this.#queue = done.catch(() => {});
    return done;
  }

  async #edit(changes) {
    const before = this.text;
    try {
      const answer = await post("api/config/edit", { text: before, format: this.format, changes });
      if (this.text !== before) {
        toast("The text was changed meanwhile; the form's change was left out.", { kind: "warn" });
        return false;
      }
      this.text = answer.text;
      this.#history.put(answer.text, JSON.stringify(changes.map((one) => ("value" in one ? one.path : [...one.path, {}]))));
      if (answer.config) this.data = answer.config;
      this.#tell("text");
      this.#tell("data");
      this.#later();
      return true;
    } catch (error) {
      toast(error.message, { kind: "bad", seconds: 8 });
      this.#tell("data"); // resets the form to the text
      return false;
    }
  }

  #later() {
    clearTimeout(this.#timer);
    this.status = "changed";
    this.#tell("status");
    this.#timer = setTimeout(() => this.check(), PAUSE_MS);
  }

  /** Let the server check the text. Users without permission to edit see the server's current problems. */
  async check() {
    if (!this.editable) {
      this.#tell("data");
      this.#tell("problems");
      this.#tell("status");
      return;
    }
    const turn = (this.#checks += 1);
    const text = this.text;
    this.status = "checking";
    this.#tell("status");
    let answer;
    try {
      answer = await post("api/config/validate", { text, format: this.format });
    } catch (error) {
      if (!(error instanceof ApiError) || error.problem.valid !== false) {
        if (turn === this.#checks) this.#failed(error);
        return;
      }
      answer = error.problem;
    }
    if (turn !== this.#checks || text !== this.text) return;
    this.errors = (answer.errors || []).map(placed);
    this.warnings = (answer.warnings || []).map(placed);
    this.readable = Boolean(answer.config);
    if (answer.config) this.data = answer.config;
    this.status = answer.valid ? (this.changed ? "valid" : "clean") : "invalid";
    if (answer.config) this.#tell("data");
    this.#tell("problems");
    this.#tell("status");
  }

  #failed(error) {
    this.errors = [placed({ path: "", text: error.message, line: null })];
    this.status = "invalid";
    this.#tell("problems");
    this.#tell("status");
  }

  /** Return the pending changes as a unified diff. */
  async diff() {
    return (await post("api/config/diff", { text: this.text })).diff;
  }

  /** Save the text to the file and put it in force. ApiError 409: the file was changed by others. */
  async apply() {
    this.#saving = true;
    try {
      const answer = await put("api/config", { text: this.text, version: this.version });
      await this.reload();
      return answer;
    } finally {
      this.#saving = false;
    }
  }

  /** Detect whether others changed the file or put it in force. */
  async look() {
    const { version } = this;
    const answer = await get("api/config");
    if (this.#saving || version !== this.version) return; // changed by this page
    const newer = answer.version !== version;
    if (!newer && answer.in_force === this.inForce) {
      if (this.theirs) this.#keep(null);
    } else if (!this.changed || answer.text === this.text) {
      await this.#put(answer);
      uiConfig(true).catch(() => {}); // services and collections may have changed
    } else if (newer && this.theirs?.version !== answer.version) {
      this.#keep(answer);
    } else if (!newer) {
      this.inForce = answer.in_force;
      this.#tell("status");
    }
  }

  #keep(theirs) {
    this.theirs = theirs;
    this.#tell("status");
  }

  /** Replace this text with the other version. */
  takeTheirs() {
    return this.#put(this.theirs);
  }

  /** Keep this text: saving replaces the other version. */
  keepMine() {
    const { version, text, config, in_force: inForce } = this.theirs;
    Object.assign(this, { version, saved: text, savedData: config ?? null, inForce, theirs: null });
    return this.check();
  }

  /** Reload the file; changes that were not applied are lost. */
  async reload() {
    await this.#put(await get("api/config"));
  }

  async #put(answer) {
    this.#take(answer);
    this.#history.put(this.text);
    this.#tell("text");
    await this.check();
  }

  close() {
    clearTimeout(this.#timer);
    this.#listeners.clear();
    this.#checks += 1;
  }
}

function placed(problem) {
  return { ...problem, place: parsePath(problem.path) };
}
