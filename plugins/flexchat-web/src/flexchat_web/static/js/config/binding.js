// Two-way binding of a control and a path of the draft.
//   const bound = binding(draft, ["responses", 0], { keys: ["llm", "model"], read: () => form.value, write: (value) => form.set(value) });
//   bound.changed()     the user changed the control          bound.update()     the draft's data changed
// keys: the keys of the table that belong to this control; absent: the whole value.

import { differences, pick, same } from "./paths.js";

const PAUSE_MS = 250;

/** Return { changed, update, pending }. */
export function binding(draft, path, { keys, read, write }) {
  let timer = null;
  let sending = 0;
  const mine = (value) => (keys ? pick(value, keys) : value);

  async function send() {
    clearTimeout(timer);
    draft.unsent.delete(send);
    timer = null;
    sending += 1;
    const now = draft.at(path);
    const changes =
      now === undefined && keys
        ? differences(undefined, emptied(mine(read())), path)
        : differences(mine(now), mine(read()), path);
    await draft.change(changes);
    sending -= 1;
    update();
  }

  function update() {
    if (timer !== null || sending) return;
    const wanted = mine(draft.at(path));
    if (!same(emptied(wanted), emptied(mine(read())))) write(wanted);
  }

  return {
    update,
    get pending() {
      return timer !== null || sending > 0;
    },
    changed() {
      clearTimeout(timer);
      draft.unsent.add(send);
      timer = setTimeout(send, PAUSE_MS);
    },
  };
}

function emptied(value) {
  return value && typeof value === "object" && !Array.isArray(value) && !Object.keys(value).length ? undefined : value;
}
